// A set of prefixes that texts are asked for, such as the folders of a library: one search, however many there are.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace framejit {

class PrefixSet {
 public:
  PrefixSet() = default;
  explicit PrefixSet(std::vector<std::string> prefixes) {
    std::sort(prefixes.begin(), prefixes.end());
    for (std::string& prefix : prefixes)
      if (!begins(prefix)) prefixes_.push_back(std::move(prefix));
  }

  // Whether it begins with one of them. No prefix begins with another, so none lies between a prefix of the text and
  // the text.
  bool begins(std::string_view text) const {
    const auto behind = std::upper_bound(prefixes_.begin(), prefixes_.end(), text);
    return behind != prefixes_.begin() && text.substr(0, std::prev(behind)->size()) == *std::prev(behind);
  }

 private:
  std::vector<std::string> prefixes_;  // sorted
};

}  // namespace framejit
