// Machine code of kernels from one process to the next, in a folder of the user's own.
//
// A file is named by a hash of its key and holds the whole key, so that no other's code is taken; it is written beside
// its place and renamed, so that readers see all of it or nothing; a checksum finds what was cut off or changed, and
// such a file is replaced. Any number of processes may share the folder. No failure here is an error: a kernel that
// cannot be read is compiled, one that cannot be written is compiled again next time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace framejit::codegen {

class DiskCache {
 public:
  // Beyond `most_bytes` the files that were read longest ago go. An empty folder name: nothing is kept.
  DiskCache(std::string folder, uint64_t most_bytes);

  std::optional<std::string> read(std::string_view key) const;
  void write(std::string_view key, std::string_view code) const;
  const std::string& folder() const { return folder_; }
  // Why nothing is kept, or empty.
  const std::string& why_not() const { return why_not_; }

 private:
  std::string path_of(std::string_view key) const;
  void prune() const;

  std::string folder_;
  uint64_t most_bytes_;
  std::string why_not_;
};

// FRAMEJIT_CACHE_DIR, else framejit/kernels in the user's folder for caches; empty if there is none, or with
// FRAMEJIT_CACHE_DIR set to nothing.
std::string default_cache_folder();

// 32 hexadecimal digits.
std::string digest_of(std::string_view text);

}  // namespace framejit::codegen
