// tests/golden/graph/*.txt: a first line `pass: NAME`, a graph, a line `---`, and the graph after the pass. Every graph
// is also verified, and printed, parsed and printed again. BLESS=1 writes the second half anew.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/passes/cse.h"
#include "graph/passes/dce.h"
#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

namespace fs = std::filesystem;

fs::path golden_folder() {
  const char* source = std::getenv("FRAMEJIT_SOURCE_DIR");
  fs::path root = source ? fs::path(source) : fs::path(__FILE__).parent_path() / "../../..";
  return root / "tests/golden/graph";
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void run_pass(const std::string& name, Graph& graph) {
  if (name == "dce") {
    eliminate_dead_code(graph);
  } else if (name == "cse") {
    merge_common_subexpressions(graph, {});
  } else if (name != "none") {
    FAIL() << "expected pass cse, dce or none, got " << name;
  }
}

std::string checked_text(const Graph& graph) {
  auto error = verify(graph);
  EXPECT_FALSE(error) << *error;
  std::string text = to_text(graph);
  EXPECT_EQ(to_text(parsed(text)), text);
  return text;
}

std::string line_diff(const std::string& expected, const std::string& got) {
  std::istringstream left(expected), right(got);
  std::string a, b, out;
  while (true) {
    bool more_left = static_cast<bool>(std::getline(left, a)), more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right) return out;
    if (more_left && more_right && a == b) {
      out += "  " + a + "\n";
      continue;
    }
    if (more_left) out += "- " + a + "\n";
    if (more_right) out += "+ " + b + "\n";
  }
}

class GoldenTest : public testing::TestWithParam<fs::path> {};

TEST_P(GoldenTest, GivesTheExpectedText) {
  std::string file = read(GetParam());
  const std::string prefix = "pass: ", separator = "\n---\n";
  ASSERT_EQ(file.substr(0, prefix.size()), prefix);
  size_t line = file.find('\n'), middle = file.find(separator);
  std::string pass = file.substr(prefix.size(), line - prefix.size());
  std::string input = file.substr(line + 1, middle == std::string::npos ? middle : middle - line);
  std::string expected = middle == std::string::npos ? "" : file.substr(middle + separator.size());
  Graph graph = parsed(input);
  std::string before = checked_text(graph);
  run_pass(pass, graph);
  std::string got = checked_text(graph);
  if (got == expected) return;
  if (std::getenv("BLESS")) {
    std::ofstream(GetParam()) << prefix << pass << "\n" << before << "---\n" << got;
    return;
  }
  FAIL() << GetParam() << " differs; if the new text is right: BLESS=1 ctest -R graph_test\n"
         << line_diff(expected, got);
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(golden_folder())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_of(const testing::TestParamInfo<fs::path>& info) { return info.param.stem().string(); }

INSTANTIATE_TEST_SUITE_P(Graph, GoldenTest, testing::ValuesIn(golden_files()), name_of);

}  // namespace
}  // namespace framejit::graph
