#include "ground/base/text.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast {
namespace {

TEST(Text, NumbersAreTheWholeText) {
  EXPECT_EQ(ParseNumber<int64_t>("-12"), -12);
  EXPECT_EQ(ParseNumber<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ParseNumber<uint32_t>("fF", 16), 255u);
  EXPECT_EQ(ParseNumber<double>("1.5e3"), 1500.0);
  for (const char* text :
       {"", "+1", " 1", "1 ", "1x", "99999999999999999999"}) {
    EXPECT_FALSE(ParseNumber<int64_t>(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseNumber<uint64_t>("-1").has_value());
}

TEST(Text, HexNumbersHaveTheirDigits) {
  EXPECT_EQ(HexNumber(0, 4), "0000");
  EXPECT_EQ(HexNumber(0x12abcdef, 8), "12abcdef");
  EXPECT_EQ(HexNumber(0x12abcdef, 2), "ef");
  EXPECT_EQ(HexNumber(UINT64_MAX, 16), "ffffffffffffffff");
}

TEST(Text, HexIsOfEitherCase) {
  EXPECT_EQ(BytesOfHex("00fFa9"), std::string("\0\xff\xa9", 3));
  EXPECT_EQ(BytesOfHex(""), "");
  for (const char* text : {"0", "0g", "g0", "0x", " 0"}) {
    EXPECT_FALSE(BytesOfHex(text).has_value()) << text;
  }
}

TEST(Text, WhatIsNoEscapeStandsForItself) {
  EXPECT_EQ(PercentDecoded("a%2fb%2Fc"), "a/b/c");
  EXPECT_EQ(PercentDecoded("%"), "%");
  EXPECT_EQ(PercentDecoded("%4"), "%4");
  EXPECT_EQ(PercentDecoded("%4g%25"), "%4g%");
  EXPECT_EQ(PercentDecoded("a+b"), "a+b");
}

TEST(Text, CasesAreThoseOfAscii) {
  EXPECT_EQ(LowerCase("AZaz@[\xc4"), "azaz@[\xc4");
  EXPECT_TRUE(EqualsInAnyCase("ETag", "etAG"));
  EXPECT_FALSE(EqualsInAnyCase("ETag", "ETag "));
  EXPECT_FALSE(EqualsInAnyCase("@", "`"));
}

TEST(Text, SpacesGoAtBothEnds) {
  EXPECT_EQ(TrimSpaces(" \ta b\r"), "a b");
  EXPECT_EQ(TrimSpaces(" \t"), "");
  EXPECT_EQ(TrimSpaces("\n"), "\n");
}

TEST(Text, Base64MatchesTheExamplesOfRfc4648) {
  EXPECT_EQ(UrlSafeBase64(""), "");
  EXPECT_EQ(UrlSafeBase64("f"), "Zg==");
  EXPECT_EQ(UrlSafeBase64("fo"), "Zm8=");
  EXPECT_EQ(UrlSafeBase64("foo"), "Zm9v");
  EXPECT_EQ(UrlSafeBase64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(UrlSafeBase64("\xFB\xFF"), "-_8=");
  EXPECT_EQ(Base64("\xFB\xFF"), "+/8=");
}

TEST(Text, Base64ReadsBackAndIsStrict) {
  std::mt19937 random(2);
  for (int size = 0; size < 50; ++size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(random());
    EXPECT_EQ(UrlSafeBase64Decode(UrlSafeBase64(bytes)), bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zh==", "Zg=a",
                          "====", "Zg\n=", "Z===", "Zm9vYg==="}) {
    EXPECT_EQ(UrlSafeBase64Decode(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace holdfast
