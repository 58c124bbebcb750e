#include "engine/format/checkpoint_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/format/golden_for_test.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

TEST(CheckpointMetadata, IsWrittenAgainByteForByte) {
  for (const char* name : {"leaves_mixed", "manager", "temporary"}) {
    const std::string text =
        FormatGolden(std::string(name) + "/_CHECKPOINT_METADATA");
    const auto metadata = ParseCheckpointMetadata(text);
    ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
    EXPECT_EQ(SerializeCheckpointMetadata(*metadata), text);
  }
}

TEST(CheckpointMetadata, ReadsEveryField) {
  const auto bare = ParseCheckpointMetadata(
      FormatGolden("leaves_mixed/_CHECKPOINT_METADATA"));
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(std::get<std::string>(bare->item_handlers), kPyTreeHandlerTypestr);
  const auto temporary =
      ParseCheckpointMetadata(FormatGolden("temporary/_CHECKPOINT_METADATA"));
  ASSERT_TRUE(temporary.ok());
  EXPECT_EQ(temporary->init_timestamp_nsecs, 1795201269945033323);
  EXPECT_EQ(temporary->commit_timestamp_nsecs, std::nullopt);
  const auto& handlers = std::get<CompositeHandlers>(temporary->item_handlers);
  ASSERT_EQ(handlers.size(), 1u);
  EXPECT_EQ(handlers[0].first, "default");
  EXPECT_EQ(handlers[0].second, kPyTreeHandlerTypestr);
}

TEST(CheckpointMetadata, OldFilesHaveOnlyTimestamps) {
  const auto metadata =
      ParseCheckpointMetadata(FormatGolden("legacy_0515/_CHECKPOINT_METADATA"));
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_TRUE(std::holds_alternative<std::monostate>(metadata->item_handlers));
  EXPECT_TRUE(metadata->init_timestamp_nsecs.has_value());
}

TEST(CheckpointMetadata, UnknownMembersJoinAnEmptyCustomMetadata) {
  const auto metadata =
      ParseCheckpointMetadata(R"({"blah": 123, "custom_metadata": {}})");
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_EQ(metadata->custom_metadata.dump(), R"({"blah":123})");
  const Status status =
      ParseCheckpointMetadata(R"({"blah": 123, "custom_metadata": {"a": 1}})")
          .status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("blah"));
}

TEST(CheckpointMetadata, OnlyFloatsAreMetrics) {
  const auto metadata = ParseCheckpointMetadata(
      R"({"performance_metrics": {"a": 1.5, "b": 2, "c": null}})");
  ASSERT_TRUE(metadata.ok());
  EXPECT_THAT(SerializeCheckpointMetadata(*metadata),
              HasSubstr(R"("performance_metrics": {"a": 1.5}, )"));
}

TEST(CheckpointMetadata, RefusesDamage) {
  for (const char* text :
       {"", "{", "[]", "null", R"({"item_handlers": 1})",
        R"({"item_handlers": {"a": 1}})", R"({"metrics": []})",
        R"({"init_timestamp_nsecs": 1.5})",
        R"({"commit_timestamp_nsecs": 9223372036854775808})",
        R"({"custom_metadata": "x"})"}) {
    EXPECT_EQ(ParseCheckpointMetadata(text).status().code(),
              StatusCode::kDataLoss)
        << text;
  }
}

TEST(RootMetadata, IsWrittenAgainByteForByte) {
  const std::string text = FormatGolden("manager/_ROOT_METADATA");
  const auto metadata = ParseRootMetadata(text);
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->custom_metadata.dump(), R"({"a":1})");
  EXPECT_EQ(SerializeRootMetadata(*metadata), text);
  EXPECT_EQ(ParseRootMetadata("[]").status().code(), StatusCode::kDataLoss);
}

TEST(Typestrs, AliasesNameTheSameItemType) {
  EXPECT_EQ(ItemTypeFromTypestr(kPyTreeHandlerTypestr), ItemType::kPyTree);
  EXPECT_EQ(ItemTypeFromTypestr(kV1PyTreeHandlerTypestr), ItemType::kPyTree);
  EXPECT_EQ(ItemTypeFromTypestr(kV1MetricsHandlerTypestr), ItemType::kJson);
  EXPECT_EQ(ItemTypeFromTypestr(
                "orbax.checkpoint.v0._src.handlers.standard_checkpoint_handler."
                "StandardCheckpointHandler"),
            ItemType::kStandard);
  EXPECT_EQ(ItemTypeFromTypestr("my.Handler"), ItemType::kUnknown);
}

}  // namespace
}  // namespace holdfast
