#include "runtime/guards/by_owner.h"

#include <gtest/gtest.h>

namespace framejit::runtime {
namespace {

using graph::SourceId;

std::vector<uint32_t> listed(const ByOwner& lists, size_t owner) {
  const auto found = lists.of(SourceId(owner));
  return {found.begin(), found.end()};
}

TEST(ByOwner, ListsEachOwnersIndicesInOrder) {
  ByOwner lists;
  lists.sort({SourceId(2u), SourceId(), SourceId(0u), SourceId(2u), SourceId(3u), SourceId(2u)}, 4);
  EXPECT_EQ(listed(lists, 0), (std::vector<uint32_t>{2}));
  EXPECT_EQ(listed(lists, 1), (std::vector<uint32_t>{}));
  EXPECT_EQ(listed(lists, 2), (std::vector<uint32_t>{0, 3, 5}));
  EXPECT_EQ(listed(lists, 3), (std::vector<uint32_t>{4}));
}

TEST(ByOwner, NothingHangsOnSourcesOfAnEmptyList) {
  ByOwner lists;
  lists.sort({}, 2);
  EXPECT_EQ(listed(lists, 0), (std::vector<uint32_t>{}));
  EXPECT_EQ(listed(lists, 1), (std::vector<uint32_t>{}));
}

}  // namespace
}  // namespace framejit::runtime
