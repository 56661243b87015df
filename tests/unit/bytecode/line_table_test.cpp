#include "bytecode/line_table.h"

#include <gtest/gtest.h>

namespace framejit::bytecode {
namespace {

std::vector<Position> lines(std::initializer_list<int> numbers) {
  std::vector<Position> positions;
  for (int line : numbers) positions.push_back({line, -1, -1, -1});
  return positions;
}

void expect_back(LineFormat format, const std::vector<Position>& positions, int first_line) {
  const std::string table = write_line_table(format, positions, first_line);
  EXPECT_EQ(parse_line_table(format, table, first_line, positions.size()), positions);
}

TEST(LineTableTest, LnotabComesBack) {
  expect_back(LineFormat::kLnotab, lines({10, 10, 11, 11, 9, 400, 100, 100}), 10);
  std::vector<Position> far(300, Position{7, -1, -1, -1});
  far.back().line = 8;
  expect_back(LineFormat::kLnotab, far, 5);
}

TEST(LineTableTest, LnotabKeepsTheLineWhereThereIsNone) {
  const std::string table = write_line_table(LineFormat::kLnotab, lines({3, -1, 4}), 3);
  EXPECT_EQ(parse_line_table(LineFormat::kLnotab, table, 3, 3), lines({3, 3, 4}));
}

TEST(LineTableTest, RangesOf310ComeBackWithGaps) {
  expect_back(LineFormat::kLineTable, lines({10, -1, -1, 12, 12, 500, 2, -1}), 10);
  expect_back(LineFormat::kLineTable, std::vector<Position>(400, Position{-1, -1, -1, -1}), 1);
  expect_back(LineFormat::kLineTable, std::vector<Position>(400, Position{300, -1, -1, -1}), 1);
}

TEST(LineTableTest, LocationsOf311ComeBackInEveryForm) {
  std::vector<Position> positions = {
      {5, 5, 4, 10},     // short
      {7, 7, 100, 120},  // one line
      {7, 9, 0, 300},    // long
      {6, 6, 200, 201},  // backwards
      {8, 8, -1, -1},    // no columns
      {-1, -1, -1, -1},  // none
      {9, 9, 79, 94},
  };
  positions.resize(27, Position{9, 9, 1, 2});  // more than one entry's units
  expect_back(LineFormat::kLocations, positions, 5);
}

}  // namespace
}  // namespace framejit::bytecode
