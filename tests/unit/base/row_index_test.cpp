#include "base/row_index.h"

#include <gtest/gtest.h>

namespace framejit {
namespace {

class Rows {
 public:
  RowIndex::Found add(int row, uint64_t hash) {
    const RowIndex::Found found = index_.add(hash, [&](uint32_t at) { return rows_[at] == row; });
    if (found.fresh) rows_.push_back(row);
    return found;
  }
  bool contains(int row, uint64_t hash) const {
    return index_.contains(hash, [&](uint32_t at) { return rows_[at] == row; });
  }
  const std::vector<int>& rows() const { return rows_; }

 private:
  std::vector<int> rows_;
  RowIndex index_;
};

TEST(RowIndexTest, FindsTheRowThatIsThere) {
  Rows rows;
  EXPECT_FALSE(rows.contains(7, 70));
  EXPECT_TRUE(rows.add(7, 70).fresh);
  EXPECT_TRUE(rows.add(8, 80).fresh);
  const RowIndex::Found again = rows.add(7, 70);
  EXPECT_FALSE(again.fresh);
  EXPECT_EQ(again.row, 0u);
  EXPECT_TRUE(rows.contains(8, 80));
  EXPECT_FALSE(rows.contains(9, 90));
}

TEST(RowIndexTest, TellsRowsOfOneHashApart) {
  Rows rows;
  for (int row = 0; row < 100; ++row) ASSERT_EQ(rows.add(row, 5).row, static_cast<uint32_t>(row));
  for (int row = 0; row < 100; ++row) ASSERT_FALSE(rows.add(row, 5).fresh);
}

TEST(RowIndexTest, KeepsEachRowWhileItGrows) {
  Rows rows;
  auto hash_of = [](int row) { return static_cast<uint64_t>(row % 1000) * 0x9e3779b97f4a7c15u; };
  for (int row = 0; row < 5000; ++row) ASSERT_TRUE(rows.add(row, hash_of(row)).fresh);
  for (int row = 0; row < 5000; ++row) {
    const RowIndex::Found found = rows.add(row, hash_of(row));
    ASSERT_FALSE(found.fresh);
    ASSERT_EQ(found.row, static_cast<uint32_t>(row));
  }
  EXPECT_EQ(rows.rows().size(), 5000u);
}

}  // namespace
}  // namespace framejit
