#include "ground/base/xxh64.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

uint64_t HashOf(std::string_view data) {
  Xxh64 hash;
  hash.Update(data);
  return hash.Digest();
}

TEST(Xxh64Test, KnownVectors) {
  EXPECT_EQ(HashOf(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(HashOf("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(HashOf("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(HashOf("Nobody inspects the spammish repetition"),
            0xFBCEA83C8A378BF1u);
}

TEST(Xxh64Test, SplitsDoNotMatter) {
  std::string data(200, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 37);
  for (size_t size = 0; size <= data.size(); ++size) {
    const std::string_view whole(data.data(), size);
    for (size_t split = 0; split <= size; ++split) {
      Xxh64 hash;
      hash.Update(whole.substr(0, split));
      hash.Update(whole.substr(split));
      ASSERT_EQ(hash.Digest(), HashOf(whole)) << split << " of " << size;
    }
  }
}

TEST(Xxh64Test, DigestInBetweenChangesNothing) {
  Xxh64 hash;
  hash.Update("ab");
  EXPECT_EQ(hash.Digest(), HashOf("ab"));
  hash.Update("c");
  EXPECT_EQ(hash.Digest(), HashOf("abc"));
}

}  // namespace
}  // namespace holdfast
