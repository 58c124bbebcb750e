#include "ground/base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace holdfast {
namespace {

TEST(Crc32c, KnownVectors) {
  // RFC 3720 appendix B.4.
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(Crc32c, FastEqualsSlowForEveryAlignmentAndLaneBorder) {
  std::mt19937 random(1);
  std::string data(3 * 4096 * 2 + 100, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  const std::string_view view(data);
  for (const size_t size : {0, 1, 7, 8, 9, 4095, 12287, 12288, 12289, 24600}) {
    for (size_t start = 0; start < 9; ++start) {
      const std::string_view part = view.substr(start, size);
      ASSERT_EQ(Crc32c(part), ExtendCrc32cSlow(0, part))
          << start << " " << size;
    }
  }
}

TEST(Crc32c, ExtendsAcrossAnySplit) {
  const std::string text = "the same bytes in two parts";
  for (size_t split = 0; split <= text.size(); ++split) {
    const uint32_t first = Crc32c(text.substr(0, split));
    EXPECT_EQ(ExtendCrc32c(first, text.substr(split)), Crc32c(text));
  }
}

TEST(Crc32c, JoinsPartsOfAnySize) {
  std::mt19937 random(2);
  std::string data(300'000, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  const std::string_view view(data);
  const uint32_t whole = Crc32c(view);
  for (const size_t split : {0, 1, 7, 4096, 65536, 65537, 299'999, 300'000}) {
    EXPECT_EQ(JoinCrc32c(Crc32c(view.substr(0, split)),
                         Crc32c(view.substr(split)), view.size() - split),
              whole)
        << split;
  }
  // More zeros than fit in memory: appending n twice equals appending 2 n.
  const uint64_t many = uint64_t{1} << 45;
  const uint32_t once = JoinCrc32c(0x12345678, 0, many);
  EXPECT_EQ(JoinCrc32c(once, 0, many), JoinCrc32c(0x12345678, 0, 2 * many));
}

}  // namespace
}  // namespace holdfast
