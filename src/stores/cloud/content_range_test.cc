#include "stores/cloud/content_range.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace holdfast {
namespace {

TEST(ContentRangeTest, TakesWhatServersSend) {
  const auto range = ParseContentRange("bytes 100-199/1234");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->offset, 100u);
  EXPECT_EQ(range->byte_count, 100u);
  EXPECT_EQ(range->total_bytes, 1234u);
  EXPECT_TRUE(ParseContentRange("bytes 0-0/1"));
  EXPECT_TRUE(
      ParseContentRange("bytes 0-9223372036854775806/9223372036854775807"));
  EXPECT_EQ(ParseUnsatisfiedRange("bytes */0"), 0u);
  EXPECT_EQ(ParseUnsatisfiedRange("bytes */77"), 77u);
}

TEST(ContentRangeTest, RefusesTheRest) {
  for (const char* value :
       {"", "bytes", "bytes ", "bytes 1-2", "bytes 1-2/", "bytes 1-2/*",
        "bytes 2-1/9", "bytes 0-9/9", "bytes 0-9/10 ", "bytes  0-9/10",
        "bytes -5/10", "bytes +0-9/10", "bytes 0-9/18446744073709551615",
        "bytes 0-99999999999999999999/1", "items 0-9/10", "bytes */10",
        "Bytes 0-9/10", "bytes 0x0-9/10", "bytes 0-9/10,bytes 0-9/10"}) {
    EXPECT_FALSE(ParseContentRange(value)) << value;
  }
  for (const char* value : {"", "bytes */", "bytes */*", "bytes */5 ",
                            "bytes 0-9/10", "bytes */9223372036854775808"}) {
    EXPECT_FALSE(ParseUnsatisfiedRange(value)) << value;
  }
}

TEST(ContentRangeTest, ReadsBackWhatIsWritten) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t offset = random() >> (2 + random() % 60);
    const uint64_t count = 1 + (random() >> (3 + random() % 60));
    const uint64_t total = offset + count + (random() >> (3 + random() % 60));
    if (total >> 63 != 0) continue;
    const auto range = ParseContentRange(
        "bytes " + std::to_string(offset) + "-" +
        std::to_string(offset + count - 1) + "/" + std::to_string(total));
    ASSERT_TRUE(range);
    EXPECT_EQ(range->offset, offset);
    EXPECT_EQ(range->byte_count, count);
    EXPECT_EQ(range->total_bytes, total);
  }
}

}  // namespace
}  // namespace holdfast
