#include "bytecode/exception_table.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace framejit::bytecode {
namespace {

TEST(ExceptionTableTest, WritesCPythonsBytes) {
  EXPECT_EQ(write_exception_table({{4, 22, 25, 0, false}}), std::string("\x84\x12\x19\x00", 4));
}

TEST(ExceptionTableTest, NumbersOfAllSizesComeBack) {
  const std::vector<ExceptionEntry> entries = {
      {0, 1, 63, 0, false}, {1, 65, 64, 31, true}, {70, 5000, 4096, 32, false}, {5000, 300000, 262144, 3, true}};
  EXPECT_EQ(parse_exception_table(write_exception_table(entries)), entries);
}

TEST(ExceptionTableTest, RefusesATableThatEndsInsideAnEntry) {
  EXPECT_THROW(parse_exception_table("\x84\x12"), InternalError);
}

}  // namespace
}  // namespace framejit::bytecode
