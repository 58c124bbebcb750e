#include "engine/format/strings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/format/golden_for_test.h"
#include "ground/json/scanner.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

TEST(StringsFile, IsWrittenAgainByteForByte) {
  for (const char* name : {"leaves_mixed", "keys_odd_strings"}) {
    const std::string text = FormatGolden(std::string(name) + "/_strings.json");
    const auto strings = ParseStringsFile(text);
    ASSERT_TRUE(strings.ok()) << strings.status().ToString();
    const auto again = SerializeStringsFile(*strings);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, text);
  }
}

TEST(StringsFile, NamesLeadThroughNestedObjects) {
  const auto strings =
      ParseStringsFile(FormatGolden("keys_odd_strings/_strings.json"));
  ASSERT_TRUE(strings.ok());
  EXPECT_EQ(strings->at("sl/ash"), "nested pointer");
  EXPECT_EQ(strings->at(""), "empty key");
  EXPECT_EQ(strings->at("l.1"), "y");
  EXPECT_EQ(strings->count("sl"), 0u);
}

// Texts that TensorStore 0.1.86 wrote for the same names.
TEST(StringsFile, NamesAreJsonPointers) {
  const std::pair<StringsFile, const char*> cases[] = {
      {{{"a~0b", "x"}}, R"({"a~b":"x"})"},
      {{{"a~1b", "x"}}, R"({"a/b":"x"})"},
      {{{"a/b", "x"}, {"a~1b", "y"}}, R"({"a":{"b":"x"},"a/b":"y"})"},
      {{{"a/0", "y"}, {"a/1", "x"}, {"a/-", "z"}},
       R"({"a":{"-":"z","0":"y","1":"x"}})"},
      {{{"trail/", "x"}, {"a//b", "y"}},
       R"({"a":{"":{"b":"y"}},"trail":{"":"x"}})"},
      {{{"a", "x\x7F\x01\b\f/<\xC3\xA9"}},
       "{\"a\":\"x\x7F\\u0001\\b\\f/<\xC3\xA9\"}"},
      {{}, "{}"},
  };
  for (const auto& [strings, text] : cases) {
    const auto written = SerializeStringsFile(strings);
    ASSERT_TRUE(written.ok()) << written.status().ToString();
    EXPECT_EQ(*written, text);
    const auto read = ParseStringsFile(text);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*read, strings);
  }
}

TEST(StringsFile, RefusesNamesThatCannotBeStored) {
  const StringsFile bad[] = {{{"a~b", "x"}},
                             {{"a~", "x"}},
                             {{"a", "x"}, {"a/b", "y"}},
                             {{"", "x"}, {"/y", "z"}},
                             {{"a", "\xFF"}},
                             {{"\xFF", "x"}},
                             {{std::string(kJsonDepthMax, '/'), "x"}}};
  for (const StringsFile& strings : bad) {
    const auto written = SerializeStringsFile(strings);
    EXPECT_EQ(written.status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(std::string(SerializeStringsFile(bad[0]).status().message()),
              HasSubstr("string leaf 'a~b'"));
}

TEST(StringsFile, RefusesDamage) {
  for (const char* text :
       {"", "[]", R"({"a":1})", R"({"a":["x"]})", R"({"a":"x","a":"y"})",
        R"({"a":"x"}x)", R"({"a":{"b":"x"},"a":{"b":"y"}})"}) {
    EXPECT_EQ(ParseStringsFile(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
}

TEST(StringsFile, RefusesAMemberGivenTwice) {
  for (const char* text :
       {R"({"a":"x","a":"y"})", R"({"a":"x","a":{"b":"y"}})",
        R"({"a":{"b":"x"},"a":{"c":"y"}})"}) {
    EXPECT_EQ(ParseStringsFile(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace holdfast
