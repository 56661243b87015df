#include "base/address_pair_set.h"

#include <gtest/gtest.h>

#include <set>

namespace framejit {
namespace {

const void* at(uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(AddressPairSetTest, TellsWhetherAPairIsNew) {
  AddressPairSet set;
  EXPECT_TRUE(set.insert(at(16), at(32)));
  EXPECT_FALSE(set.insert(at(16), at(32)));
  EXPECT_TRUE(set.insert(at(32), at(16)));
  EXPECT_EQ(set.size(), 2u);
}

TEST(AddressPairSetTest, TakesANullSecondAddress) {
  AddressPairSet set;
  EXPECT_TRUE(set.insert(at(16), nullptr));
  EXPECT_TRUE(set.insert(at(16), at(16)));
  EXPECT_FALSE(set.insert(at(16), nullptr));
}

TEST(AddressPairSetTest, KeepsEachPairWhileItGrows) {
  AddressPairSet set;
  std::set<std::pair<uintptr_t, uintptr_t>> expected;
  for (int round = 0; round < 2; ++round)
    for (uintptr_t first = 1; first <= 100; ++first)
      for (uintptr_t second = 0; second < 50; ++second) {
        const bool fresh = expected.emplace(first * 64, second * 16).second;
        ASSERT_EQ(set.insert(at(first * 64), at(second * 16)), fresh);
      }
  EXPECT_EQ(set.size(), expected.size());
}

}  // namespace
}  // namespace framejit
