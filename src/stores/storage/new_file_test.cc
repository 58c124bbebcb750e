#include "stores/storage/new_file.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

TEST(TempName, NamesTheTargetAndTheNumber) {
  EXPECT_EQ(TempName("k", 0x1234abcdu), ".k.holdfast-tmp.000000001234abcd");
  EXPECT_EQ(TempName("k", ~uint64_t{0}), ".k.holdfast-tmp.ffffffffffffffff");
}

TEST(TempName, FitsANameAndIsHiddenForEveryTarget) {
  for (size_t byte_count = 1; byte_count <= 255; ++byte_count) {
    const std::string name = TempName(std::string(byte_count, 'x'), 7);
    EXPECT_LE(name.size(), 255u);
    EXPECT_TRUE(IsHiddenName(name)) << name;
  }
}

TEST(TempName, CutsBetweenCharacters) {
  std::string name;
  while (name.size() < 254) name += "ü";  // two bytes each
  for (const std::string& target : {name, "x" + name}) {
    const std::string temp = TempName(target, 7);
    const std::string kept = temp.substr(1, temp.find(".holdfast") - 1);
    EXPECT_EQ(kept, target.substr(0, kept.size()));
    EXPECT_EQ(kept.back(), "ü"[1]);
    EXPECT_GE(kept.size(), 222u);
  }
}

TEST(IsHiddenName, OnlyLocksAndTemporaryFiles) {
  for (const char* hidden :
       {"__lock", "manifest.ocdbt.__lock", "..holdfast-tmp.0123456789abcdef",
        ".k.holdfast-tmp.0123456789abcdef"}) {
    EXPECT_TRUE(IsHiddenName(hidden)) << hidden;
  }
  for (const char* shown :
       {"k", ".zarray", "__lock_", "lock", ".k.holdfast-tmp.",
        ".k.holdfast-tmp.0123456789abcde", ".k.holdfast-tmp.0123456789ABCDEF",
        "k.holdfast-tmp.0123456789abcdef", ".holdfast-tmp.0123456789abcdef"}) {
    EXPECT_FALSE(IsHiddenName(shown)) << shown;
  }
}

}  // namespace
}  // namespace holdfast
