#include "ground/json/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace holdfast {
namespace {

std::string Float(double value) {
  std::string out;
  AppendPythonJsonFloat(out, value);
  return out;
}

TEST(PythonJson, FloatsAreRepr) {
  EXPECT_EQ(Float(0.0), "0.0");
  EXPECT_EQ(Float(-0.0), "-0.0");
  EXPECT_EQ(Float(1.0), "1.0");
  EXPECT_EQ(Float(0.1), "0.1");
  EXPECT_EQ(Float(-2.5), "-2.5");
  EXPECT_EQ(Float(1e-4), "0.0001");
  EXPECT_EQ(Float(1e-5), "1e-05");
  EXPECT_EQ(Float(1.5e-7), "1.5e-07");
  EXPECT_EQ(Float(1e15), "1000000000000000.0");
  EXPECT_EQ(Float(1e16), "1e+16");
  EXPECT_EQ(Float(123456789012345.6), "123456789012345.6");
  EXPECT_EQ(Float(1.7976931348623157e308), "1.7976931348623157e+308");
  EXPECT_EQ(Float(5e-324), "5e-324");
  EXPECT_EQ(Float(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(Float(-std::numeric_limits<double>::infinity()), "-Infinity");
  EXPECT_EQ(Float(std::nan("")), "NaN");
}

TEST(PythonJson, FloatsReadBack) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const auto again = ParseJsonText(Float(value));
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(again->get<double>(), value) << Float(value);
  }
}

TEST(PythonJson, StringsAreAscii) {
  std::string out;
  AppendPythonJsonString(out,
                         std::string("a\"\\/\b\f\n\r\t\x01\x7F\0\xC3\xA9\xF0"
                                     "\x9D\x94\x98\xFF",
                                     19));
  EXPECT_EQ(out,
            "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u007f\\u0000\\u00e9"
            "\\ud835\\udd18\\ufffd\"");
}

TEST(PythonJson, Separators) {
  const nlohmann::ordered_json value = {
      {"b", {1, 2.0, nullptr, true, "x"}},
      {"a", nlohmann::ordered_json::object()},
      {"u", std::numeric_limits<uint64_t>::max()},
      {"e", nlohmann::ordered_json::array()}};
  EXPECT_EQ(PythonJsonText(value),
            "{\"b\": [1, 2.0, null, true, \"x\"], \"a\": {}, "
            "\"u\": 18446744073709551615, \"e\": []}");
}

TEST(CompactJson, StringsAreAsNlohmannDumpsThem) {
  std::mt19937 random(5);
  const char* pieces[] = {"a",  "\"", "\\",   "\n",       "\x01",
                          "/",  "\b", "\x7F", "\xC3\xA9", "\xF0\x9D\x94\x98",
                          "\t", " "};
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += pieces[random() % 12];
    std::string out;
    AppendCompactJsonString(out, text);
    EXPECT_EQ(out, nlohmann::json(text).dump());
  }
  std::string out;
  AppendCompactJsonString(out, "\xFF");
  EXPECT_EQ(out, "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace holdfast
