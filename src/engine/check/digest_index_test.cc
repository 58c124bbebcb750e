#include "engine/check/digest_index.h"

#include <gtest/gtest.h>

#include "ground/base/crc32c.h"
#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

TEST(DigestIndex, FindsAndChecksRows) {
  MemoryStore store;
  DigestFile digests;
  digests.files = {{"b", 3, Crc32c("bbb")}, {"a", 3, Crc32c("aaa")}};
  digests.values = {{"d/x", 10, 2, Crc32c("hi")}, {"d/x", 0, 2, Crc32c("ho")}};
  ASSERT_TRUE(
      store.Write("_HOLDFAST_DIGESTS", SerializeDigestFile(digests), {}).ok());
  const auto index = DigestIndex::Read(store);
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  ASSERT_TRUE(index->has_value());
  EXPECT_TRUE((*index)->CheckFile("a", "aaa").ok());
  EXPECT_EQ((*index)->CheckFile("a", "aab").code(), StatusCode::kDataLoss);
  EXPECT_EQ((*index)->CheckFile("a", "aaaa").code(), StatusCode::kDataLoss);
  EXPECT_TRUE((*index)->CheckFile("not listed", "anything").ok());
  const ValueDigest* row = (*index)->FindValue("d/x", 10);
  ASSERT_NE(row, nullptr);
  EXPECT_TRUE(DigestIndex::CheckValue(*row, "hi").ok());
  const Status damaged = DigestIndex::CheckValue(*row, "hj");
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_NE(damaged.message().find("got crc32c"), std::string::npos)
      << damaged.message();
  EXPECT_EQ((*index)->FindValue("d/x", 5), nullptr);
}

TEST(DigestIndex, FolderKnowsItsOwnRows) {
  DigestFile digests;
  digests.files = {{"w/.zarray", 3, Crc32c("abc")}, {"_METADATA", 1, 0}};
  digests.values = {{"w/0", 0, 2, Crc32c("hi")}, {"ww/0", 0, 2, 0}};
  const DigestIndex index =
      DigestIndex::Parse(SerializeDigestFile(digests)).value();
  const auto below = index.Below("w/");
  ASSERT_TRUE(below.has_value());
  EXPECT_EQ(below->CheckFile(".zarray", "abd").code(), StatusCode::kDataLoss);
  ASSERT_EQ(below->values().size(), 1u);
  EXPECT_NE(below->FindValue("0", 0), nullptr);
  EXPECT_FALSE(index.Below("v/").has_value());
}

TEST(DigestIndex, AbsentIsFineAndDamagedIsNot) {
  MemoryStore store;
  EXPECT_FALSE(DigestIndex::Read(store)->has_value());
  std::string text = SerializeDigestFile({{{"a", 1, 2}}, {}});
  text[5] ^= 1;
  ASSERT_TRUE(store.Write("_HOLDFAST_DIGESTS", text, {}).ok());
  EXPECT_EQ(DigestIndex::Read(store).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
