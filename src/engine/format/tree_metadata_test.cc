#include "engine/format/tree_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/format/golden_for_test.h"
#include "engine/format/own_documents.h"
#include "ground/tree/value_type.h"
#include "holdfast/tree.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

class WrittenByOrbax : public testing::TestWithParam<const char*> {};

TEST_P(WrittenByOrbax, IsWrittenAgainByteForByte) {
  const std::string text = FormatGolden(std::string(GetParam()) + "/_METADATA");
  const auto metadata = ParseTreeMetadata(text);
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_EQ(SerializeTreeMetadata(*metadata), text);
}

INSTANTIATE_TEST_SUITE_P(Golden, WrittenByOrbax,
                         testing::Values("leaves_mixed", "keys_odd",
                                         "keys_odd_strings", "rich_types",
                                         "custom_metadata"));

TEST(TreeMetadata, ReadsEveryField) {
  const auto metadata = ParseTreeMetadata(FormatGolden("rich_types/_METADATA"));
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->use_ocdbt, std::optional<bool>(true));
  EXPECT_FALSE(metadata->use_zarr3);
  EXPECT_TRUE(metadata->store_array_data_equal_to_fill_value);
  ASSERT_TRUE(metadata->value_metadata_tree.has_value());
  EXPECT_THAT(*metadata->value_metadata_tree,
              HasSubstr("\"clazz\": \"Pair\", \"entries\""));
  ASSERT_EQ(metadata->entries.size(), 10u);
  const TreeMetadataEntry& first = metadata->entries[2];
  EXPECT_EQ(KeyPathRepr(first.path), "('nt', 'first')");
  EXPECT_EQ(first.value_type, kValueTypeJaxArray);
  EXPECT_FALSE(first.skip_deserialize);
  EXPECT_EQ(first.write_shape, std::optional<Shape>({2, 2}));
  EXPECT_EQ(metadata->entries[3].path[2].kind, KeyKind::kIndex);
}

TEST(TreeMetadata, OldFilesHaveDefaults) {
  const auto metadata =
      ParseTreeMetadata(FormatGolden("legacy_053_rich/_METADATA"));
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->use_ocdbt, std::nullopt);
  EXPECT_FALSE(metadata->store_array_data_equal_to_fill_value);
  EXPECT_TRUE(metadata->custom_metadata.is_null());
  EXPECT_EQ(metadata->entries.size(), 39u);
}

std::string Entry(const std::string& name, const std::string& keys,
                  const std::string& value) {
  return "\"" + name + "\": {\"key_metadata\": [" + keys +
         "], \"value_metadata\": {" + value + "}}";
}
constexpr char kKeyA[] = "{\"key\": \"a\", \"key_type\": 2}";
constexpr char kScalarValue[] =
    "\"value_type\": \"scalar\", \"skip_deserialize\": false";

std::string File(const std::string& entries) {
  return "{\"tree_metadata\": {" + entries + "}}";
}

TEST(TreeMetadata, ThePathComesFromTheKeysNotTheName) {
  const auto metadata =
      ParseTreeMetadata(File(Entry("whatever", kKeyA, kScalarValue)));
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_EQ(KeyPathRepr(metadata->entries[0].path), "('a',)");
}

TEST(TreeMetadata, ErrorsSayMemberAndOffset) {
  const std::string text = File(Entry(
      "('a',)", kKeyA, "\"value_type\": \"scalar\", \"skip_deserialize\": 0"));
  const Status status = ParseTreeMetadata(text).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            "_METADATA: tree_metadata: ('a',): value_metadata: "
            "skip_deserialize: offset " +
                std::to_string(text.find("0}")) +
                ": wrong type (got a number, want a bool)");
}

TEST(TreeMetadata, RefusesBadEntries) {
  const std::string good = Entry("x", kKeyA, kScalarValue);
  const auto code = [](const std::string& text) {
    return ParseTreeMetadata(text).status().code();
  };
  ASSERT_EQ(code(File(good)), StatusCode::kOk);
  const std::string index = "{\"key\": \"x\", \"key_type\": 1}";
  const std::string bad[] = {
      "[]",
      "{}",
      "{\"use_zarr3\": true}",
      File(good) + "x",
      "{\"tree_metadata\": {" + good + "}, \"tree_metadata\": {}}",
      File(good + ", " + Entry("y", kKeyA, kScalarValue)),
      File(Entry("x", index, kScalarValue)),
      File(Entry("x", "{\"key\": \"a\", \"key_type\": 3}", kScalarValue)),
      File(Entry("x", "{\"key\": \"a\"}", kScalarValue)),
      File(Entry("x", "{\"key\": 5, \"key_type\": 2}", kScalarValue)),
      File(Entry("x", kKeyA, "\"value_type\": \"scalar\"")),
      File(Entry("x", kKeyA,
                 std::string(kScalarValue) + ", \"write_shape\": [-1]")),
      File(Entry("x", kKeyA,
                 std::string(kScalarValue) + ", \"write_shape\": [1.5]")),
      File(Entry("x", kKeyA,
                 std::string(kScalarValue) + ", \"value_type\": \"None\"")),
      File("\"x\": {\"key_metadata\": []}"),
      "{\"tree_metadata\": {}, \"use_ocdbt\": 1}"};
  for (const std::string& text : bad) {
    EXPECT_EQ(code(text), StatusCode::kDataLoss) << text;
  }
}

TEST(TreeMetadata, TwoEntriesForOnePathAreNamed) {
  // The kinds of the keys differ, but the parameter is the same.
  const std::string text = File(
      Entry("x", "{\"key\": \"0\", \"key_type\": 1}", kScalarValue) + ", " +
      Entry("y", "{\"key\": \"0\", \"key_type\": 2}", kScalarValue));
  const Status status = ParseTreeMetadata(text).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("('0',)"));
}

TEST(TreeMetadata, BoundsThePathDepth) {
  const auto with_depth = [](int depth) {
    std::string keys = kKeyA;
    for (int i = 1; i < depth; ++i) keys += std::string(", ") + kKeyA;
    return ParseTreeMetadata(File(Entry("x", keys, kScalarValue)))
        .status()
        .code();
  };
  EXPECT_EQ(with_depth(kTreeDepthMax), StatusCode::kOk);
  EXPECT_EQ(with_depth(kTreeDepthMax + 1), StatusCode::kDataLoss);
}

TEST(TreeMetadata, IntegerKeysAreMarkedBesideWhatOrbaxReads) {
  TreeMetadata metadata;
  metadata.entries.push_back(
      {{{"a"}, {"-7", KeyKind::kInteger}}, std::string(kValueTypeScalar)});
  const std::string text = SerializeTreeMetadata(metadata);
  EXPECT_THAT(text, HasSubstr(R"({"key": "-7", "key_type": 2, )"
                              R"("holdfast_key": "int"})"));
  const auto parsed = ParseTreeMetadata(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->entries[0].path, metadata.entries[0].path);
  const auto with_key = [](const std::string& members) {
    return ParseTreeMetadata(
        File(Entry("x", "{\"key\": " + members + "}", kScalarValue)));
  };
  EXPECT_EQ(with_key(R"("1.0", "key_type": 2, "holdfast_key": "int")")
                .status()
                .code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(
      with_key(R"("1", "key_type": 2, "holdfast_key": 1)").status().code(),
      StatusCode::kDataLoss);
  // This version reads a key kind from a later version as a name; an index
  // stays an index.
  const auto later = with_key(R"("1", "key_type": 2, "holdfast_key": "float")");
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->entries[0].path[0].kind, KeyKind::kName);
  const auto index = with_key(R"("1", "key_type": 1, "holdfast_key": "int")");
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->entries[0].path[0].kind, KeyKind::kIndex);
}

TEST(TreeMetadata, UnknownMembersAreSkipped) {
  const auto metadata = ParseTreeMetadata(
      "{\"later\": {\"a\": [1]}, \"tree_metadata\": {" +
      Entry("x", "{\"key\": \"a\", \"key_type\": 2, \"more\": 1}",
            std::string(kScalarValue) + ", \"also\": null") +
      "}}");
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_EQ(metadata->entries.size(), 1u);
}

// A program that reads custom metadata and saves it again also saves the
// documents of another item.
TEST(TreeMetadata, OnlyNamedDocumentsAreTheItemsOwn) {
  TreeMetadata metadata;
  metadata.custom_metadata = {{"mine", 1}};
  metadata.documents = {{std::string(kSidecarKey), {{"version", 1}}}};
  const std::string text = SerializeTreeMetadata(metadata);
  EXPECT_TRUE(text.ends_with(
      R"("custom_metadata": {"mine": 1, "holdfast.tree": {"version": 1}}, )"
      R"("holdfast_documents": ["holdfast.tree"]})"))
      << text;
  auto parsed = ParseTreeMetadata(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->custom_metadata, metadata.custom_metadata);
  EXPECT_EQ(parsed->documents, metadata.documents);
  EXPECT_TRUE(parsed->names_documents);

  std::string other = text;
  const size_t names = other.rfind("[\"holdfast.tree\"]");
  other.replace(names, std::string::npos, "[]}");
  parsed = ParseTreeMetadata(other);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->custom_metadata, metadata.custom_metadata);
  EXPECT_TRUE(parsed->documents.is_null());

  // Written by an older holdfast, or by another library: the reader decides.
  other = text.substr(0, text.rfind(", \"holdfast_documents\"")) + "}";
  parsed = ParseTreeMetadata(other);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->custom_metadata, metadata.custom_metadata);
  EXPECT_EQ(parsed->documents, metadata.documents);
  EXPECT_FALSE(parsed->names_documents);
}

TEST(TreeMetadata, EveryCutIsRefused) {
  const std::string text = FormatGolden("custom_metadata/_METADATA");
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(ParseTreeMetadata(text.substr(0, size)).status().code(),
              StatusCode::kDataLoss)
        << size;
  }
}

}  // namespace
}  // namespace holdfast
