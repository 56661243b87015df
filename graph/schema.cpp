// Reads an operator's schema as LibTorch prints it. Types are kept as text: only mutation and aliasing are understood.
#include "graph/op.h"

namespace framejit::graph {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Splits at commas that are outside brackets and quotes.
std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  char quote = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  std::string_view last = trim(text.substr(begin));
  if (!last.empty()) parts.push_back(last);
  return parts;
}

// "Tensor(a!)[]" -> type "Tensor[]", alias set 'a', written.
void read_type(std::string_view text, SchemaArg& arg) {
  size_t open = text.find('(');
  if (open == std::string_view::npos || open == 0 || text.substr(0, open) != "Tensor") {
    arg.type = text;
    return;
  }
  size_t close = text.find(')', open);
  std::string_view annotation = text.substr(open + 1, close - open - 1);
  arg.type = std::string(text.substr(0, open)) + std::string(text.substr(close + 1));
  if (annotation.empty()) return;
  arg.alias_set = annotation[0];
  arg.written = annotation.find('!') != std::string_view::npos;
}

// "Scalar alpha=1"; a return may have no name.
SchemaArg read_argument(std::string_view text) {
  SchemaArg arg;
  size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    arg.default_text = std::string(trim(text.substr(equals + 1)));
    text = trim(text.substr(0, equals));
  }
  size_t space = text.rfind(' ');
  size_t close = text.rfind(')');
  bool named = space != std::string_view::npos && (close == std::string_view::npos || space > close);
  read_type(trim(named ? text.substr(0, space) : text), arg);
  if (named) arg.name = text.substr(space + 1);
  return arg;
}

// The position of the ')' that closes the '(' at `open`.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  char quote = 0;
  for (size_t i = open; i < text.size(); ++i) {
    char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace

std::optional<OpSchema> parse_schema(std::string_view text) {
  size_t open = text.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  size_t close = closing(text, open);
  size_t arrow = text.find("->", close);
  if (close == std::string_view::npos || arrow == std::string_view::npos) return std::nullopt;
  OpSchema schema;
  bool keyword_only = false;
  for (std::string_view part : split_arguments(text.substr(open + 1, close - open - 1))) {
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    schema.args.push_back(read_argument(part));
    schema.args.back().keyword_only = keyword_only;
  }
  std::string_view returns = trim(text.substr(arrow + 2));
  if (!returns.empty() && returns.front() == '(') returns = returns.substr(1, returns.size() - 2);
  for (std::string_view part : split_arguments(returns)) schema.returns.push_back(read_argument(part));
  return schema;
}

}  // namespace framejit::graph
