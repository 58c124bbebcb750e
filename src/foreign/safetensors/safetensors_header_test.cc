// Headers that break a rule, one per line, and the result for a valid header.
#include "foreign/safetensors/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ground/base/coding.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

struct BadHeader {
  const char* name;
  const char* json;
  uint64_t data_bytes;
  const char* message;
};

#define ONE(fields) R"({"a":{)" fields R"(}})"

const BadHeader kBadHeaders[] = {
    {"empty", "", 0, "does not begin with {"},
    {"leading space", " {}", 0, "does not begin with {"},
    {"cut", R"({"a":{"dtype":"U8")", 1, "no JSON"},
    {"trailing bytes", "{}\x01", 0, "no JSON"},
    {"not UTF-8", "{\"\xff\":1}", 0, "no JSON"},
    {"lone surrogate", R"({"\ud800":{}})", 0, "no JSON"},
    {"a list", "{\"a\":[]}", 0, "a member of the header is a list"},
    {"a number", "{\"a\":7}", 0, "a member of the header is a number"},
    {"no offsets", ONE(R"("dtype":"U8","shape":[1])"), 1, "it lacks"},
    {"no shape", ONE(R"("dtype":"U8","data_offsets":[0,1])"), 1, "it lacks"},
    {"unknown dtype", ONE(R"("dtype":"F7","shape":[1],"data_offsets":[0,1])"),
     1, "its dtype F7 is not one of the format"},
    {"negative extent",
     ONE(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1,
     "shape is a negative number"},
    {"fraction", ONE(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1,
     "shape is not a whole number"},
    {"nested shape", ONE(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"),
     1, "shape is a list"},
    {"one offset", ONE(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1,
     "does not have two data_offsets"},
    {"three offsets", ONE(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"),
     1, "more than two data_offsets"},
    {"offsets turned", ONE(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"),
     1, "not inside the 1 bytes"},
    {"offsets outside", ONE(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"),
     1, "not inside the 1 bytes"},
    {"huge offset",
     ONE(R"("dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615])"),
     1, "not inside"},
    {"too few bytes", ONE(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
     4, "are 4 bytes, but F32(2,) takes 8"},
    {"overflow",
     ONE(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":)"
         "[0,0]"),
     0, "takes no number of bytes"},
    {"extent beyond int64",
     ONE(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0])"),
     0, "its shape is too large"},
    {"half a byte", ONE(R"("dtype":"F4","shape":[1],"data_offsets":[0,1])"), 1,
     "takes no number of bytes"},
    {"hole before", ONE(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2,
     "the bytes from 0 to its data_offsets [1, 2] belong to no tensor"},
    {"bytes after", ONE(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 3,
     "holds 3 bytes of data, want 1"},
    {"overlap",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
     3, "tensor \"b\" at offset 1 of the data: data_offsets [1, 3] overlap"},
    {"one range twice",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
     2, "overlap those of tensor \"a\""},
    {"a name twice",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
     2, "tensor \"a\": it is there twice"},
    {"a field twice",
     ONE(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1,
     "its dtype is there twice"},
    {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0,
     "__metadata__: it is there twice"},
    {"metadata of numbers", R"({"__metadata__":{"a":1}})", 0,
     "__metadata__: a value is a number"},
    {"nested metadata", R"({"__metadata__":{"a":{}}})", 0,
     "__metadata__: a value is an object"},
    {"a metadata name twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0,
     "\"a\" is there twice"},
};

TEST(SafetensorsHeader, RefusesWhatBreaksARule) {
  for (const BadHeader& bad : kBadHeaders) {
    const auto parsed = ParseSafetensorsHeader(bad.json, bad.data_bytes);
    EXPECT_EQ(parsed.status().code(), StatusCode::kDataLoss) << bad.name;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(bad.message))
        << bad.name;
  }
}

TEST(SafetensorsHeader, RefusesLengthsThatLie) {
  const auto length = [](uint64_t value, uint64_t file_bytes) {
    std::string bytes;
    PutU64Little(bytes, value);
    return SafetensorsHeaderLength(bytes, file_bytes);
  };
  EXPECT_EQ(length(10, 18).value(), 10u);
  EXPECT_FALSE(length(11, 18).ok());
  EXPECT_FALSE(length(kSafetensorsHeaderBytesMax + 1, uint64_t{1} << 40).ok());
  EXPECT_TRUE(length(kSafetensorsHeaderBytesMax, uint64_t{1} << 40).ok());
  EXPECT_FALSE(length(~uint64_t{0}, 18).ok());
  EXPECT_FALSE(SafetensorsHeaderLength("1234567", 7).ok());
}

TEST(SafetensorsHeader, GivesEntriesInTheOrderOfTheirData) {
  const auto parsed = ParseSafetensorsHeader(
      R"({"z":{"dtype":"F32","shape":[],"data_offsets":[2,6],"more":[{}]},)"
      R"("__metadata__":{"format":"pt"},)"
      R"("e":{"dtype":"U8","shape":[0,5],"data_offsets":[2,2]},)"
      R"("a":{"data_offsets":[0,2],"shape":[2],"dtype":"F8_E4M3"}}  )",
      6);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  ASSERT_EQ(parsed->entries.size(), 3u);
  EXPECT_EQ(parsed->entries[0].name, "a");
  EXPECT_EQ(parsed->entries[0].dtype->dtype, DType::kFloat8E4m3fn);
  EXPECT_EQ(parsed->entries[1].name, "e");
  EXPECT_EQ(parsed->entries[1].shape, (Shape{0, 5}));
  EXPECT_EQ(parsed->entries[2].name, "z");
  EXPECT_EQ(parsed->metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, WritesWhatItReads) {
  SafetensorsHeader header;
  header.metadata["a\"b"] = "line\nbreak";
  header.entries.push_back(
      {"w\xc3\xa4", FindSafetensorsDType("BF16"), {2, 3}, 0, 12});
  const auto bytes = SafetensorsHeaderBytes(header);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->size() % 8, 0u);
  const auto again = ParseSafetensorsHeader(bytes->substr(8), 12);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->metadata, header.metadata);
  EXPECT_EQ(again->entries[0].name, "w\xc3\xa4");
  EXPECT_EQ(again->entries[0].shape, (Shape{2, 3}));
}

TEST(SafetensorsHeader, RefusesEveryPrefixOfItself) {
  const std::string json =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  ASSERT_TRUE(ParseSafetensorsHeader(json, 1).ok());
  for (size_t size = 0; size < json.size(); ++size) {
    EXPECT_FALSE(ParseSafetensorsHeader(json.substr(0, size), 1).ok()) << size;
  }
}

}  // namespace
}  // namespace holdfast
