#include "base/prefix_set.h"

#include <gtest/gtest.h>

namespace framejit {
namespace {

TEST(PrefixSet, NothingBeginsWithNone) {
  EXPECT_FALSE(PrefixSet().begins("a"));
  EXPECT_FALSE(PrefixSet().begins(""));
}

TEST(PrefixSet, EverythingBeginsWithTheEmptyText) {
  const PrefixSet set({"b", ""});
  EXPECT_TRUE(set.begins(""));
  EXPECT_TRUE(set.begins("a"));
}

TEST(PrefixSet, TextsThatBeginWithOne) {
  const PrefixSet set({"/lib/torch/", "/lib/python3.8", "/lib/numpy/"});
  for (const char* text :
       {"/lib/torch/", "/lib/torch/nn.py", "/lib/python3.8", "/lib/python3.8/abc.py", "/lib/numpy/a"})
    EXPECT_TRUE(set.begins(text)) << text;
  for (const char* text :
       {"", "/", "/lib/torch", "/lib/torchvision/a.py", "/lib/python3.", "/lib/z", "/lib/a", "lib/torch/"})
    EXPECT_FALSE(set.begins(text)) << text;
}

// What lies between a prefix and the text: one that begins with the prefix itself.
TEST(PrefixSet, PrefixesThatBeginWithOthers) {
  const PrefixSet set({"ab", "a", "abc", "ad"});
  for (const char* text : {"a", "ab", "aba", "abd", "ac", "ae", "ad"}) EXPECT_TRUE(set.begins(text)) << text;
  EXPECT_FALSE(set.begins("b"));
}

// Bytes above 127 are behind the others, however char is signed.
TEST(PrefixSet, BytesOfEveryValue) {
  const PrefixSet set({"\xc3\xa4", "z"});
  EXPECT_TRUE(set.begins("\xc3\xa4/a"));
  EXPECT_TRUE(set.begins("z\xff"));
  EXPECT_FALSE(set.begins("\xc3"));
}

}  // namespace
}  // namespace framejit
