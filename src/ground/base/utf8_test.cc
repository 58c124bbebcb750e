#include "ground/base/utf8.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(Utf8, EveryCodePointReadsBackAsItself) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(text, c);
    size_t position = 0;
    ASSERT_EQ(DecodeUtf8(text, position), c);
    ASSERT_EQ(position, text.size());
  }
}

TEST(Utf8, RefusesWhatUnicodeRefuses) {
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3",
        "\xE2\x82", "\xE2\x28\xA1", "\xFF"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << testing::PrintToString(bad);
    size_t position = 0;
    EXPECT_EQ(DecodeUtf8(bad, position), kBadCodePoint);
    EXPECT_EQ(position, 1u);
  }
  EXPECT_TRUE(IsValidUtf8("h\xC3\xA9 \xE2\x98\x83 \xF0\x9D\x94\x98"));
}

}  // namespace
}  // namespace holdfast
