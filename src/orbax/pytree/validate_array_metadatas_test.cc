#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "orbax/pytree/pytree_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

std::string MetadatasRefusal(const ArrayMetadatasByProcess& metadatas) {
  const Status status = ValidateAllArrayMetadatas(metadatas);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return std::string(status.message());
}

const SerializedArrayMetadata kA = {"a", {2}, {2}, "null"};
const SerializedArrayMetadata kB = {"b", {4}, {2}, "null"};

TEST(ValidateAllArrayMetadatas, EqualProcessesPassInAnyOrder) {
  EXPECT_TRUE(ValidateAllArrayMetadatas({}).ok());
  EXPECT_TRUE(ValidateAllArrayMetadatas({{0, {kA}}}).ok());
  EXPECT_TRUE(ValidateAllArrayMetadatas({{0, {kA, kB}}, {1, {kB, kA}}}).ok());
}

TEST(ValidateAllArrayMetadatas, NamesWhatDiffers) {
  EXPECT_EQ(MetadatasRefusal({{0, {}}, {1, {kA}}}),
            "ArrayMetadata Store contains no metadata for process_index=0.");
  EXPECT_EQ(MetadatasRefusal({{0, {kA, kB}}, {3, {kA}}}),
            "ArrayMetadata Store contains different number of params: "
            "process_index=0 has 2, but process_index=3 has 1 params. Diff: "
            "process_index=3 is missing 1 params: {'b'}.");
  EXPECT_EQ(MetadatasRefusal({{0, {kA}}, {1, {kB}}}),
            "ArrayMetadata Store contains different params: comparing with "
            "process_index=0, process_index=1 is missing 1 params: {'a'}.");
  SerializedArrayMetadata other = kA;
  other.chunk_shape = {1};
  EXPECT_EQ(MetadatasRefusal({{0, {kA}}, {1, {other}}}),
            "ArrayMetadata Store contains different chunk_shape for param: a. "
            "process_index=1 has (1,), but process_index=0 has (2,).");
  other = kA;
  other.write_shape = {1};
  EXPECT_EQ(MetadatasRefusal({{0, {kA}}, {1, {other}}}),
            "ArrayMetadata Store contains different write_shape for param: a. "
            "process_index=1 has (1,), but process_index=0 has (2,).");
  other = kA;
  other.ext_metadata = R"({"random_key_impl": "rbg"})";
  EXPECT_EQ(MetadatasRefusal({{0, {kA}}, {1, {other}}}),
            "Different ext_metadata types param: a. process_index=1 has "
            "{'random_key_impl': 'rbg'}, but process_index=0 has None.");
  SerializedArrayMetadata fry = kA;
  fry.ext_metadata = R"({"random_key_impl": "fry"})";
  EXPECT_EQ(MetadatasRefusal({{0, {fry}}, {1, {other}}}),
            "ArrayMetadata Store contains different "
            "ext_metadata.random_key_impl for param: a. process_index=1 has "
            "fry, but process_index=0 has rbg.");
  EXPECT_THAT(
      std::string(ValidateAllArrayMetadatas({{0, {kA}}}, {2}).message()),
      testing::HasSubstr("just one process (process_index=0), but found 2"));
}

TEST(AddArrayMetadatas, KeepsAllRowsOfWhichTheLastCounts) {
  const ScratchDirectory scratch;
  SerializedArrayMetadata later = kA;
  later.chunk_shape = {1};
  ASSERT_TRUE(AddArrayMetadatas(scratch.path(), 3, {kA, kB}).ok());
  ASSERT_TRUE(AddArrayMetadatas(scratch.path(), 3, {later}).ok());
  const ArrayMetadatasByProcess rows = *ReadArrayMetadatas(scratch.path());
  ASSERT_EQ(rows.at(3).size(), 3u);
  EXPECT_EQ(rows.at(3)[2].chunk_shape, Shape({1}));
  EXPECT_TRUE(
      ValidateAllArrayMetadatas({{2, {kA, kB, later}}, {3, rows.at(3)}}).ok());
}

TEST(Finalize, GivesTheRowsOfAllProcessesToTheValidator) {
  const ScratchDirectory scratch;
  ArrayMetadatasByProcess seen;
  PyTreeCheckpointHandlerOptions options;
  options.array_metadata_validator = [&](const ArrayMetadatasByProcess& rows) {
    seen = rows;
    return InvalidArgumentError("no");
  };
  const auto handler = MakeHandler(options);
  const Tree item = Tree::Dict({{"j", Tree::JaxArray(Iota({4}))}});
  ASSERT_TRUE(handler->Save(scratch.path(), {.item = item}).ok());
  WriteTestFile(
      scratch / "array_metadatas/process_1",
      R"({"array_metadatas": [{"array_metadata": {"param_name": "k", "write_shape": [1], "chunk_shape": [1], "ext_metadata": null}}]})");
  EXPECT_EQ(handler->Finalize(scratch.path()).message(), "no");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0][0].param_name, "j");
  EXPECT_EQ(seen[0][0].write_shape, Shape({4}));
  EXPECT_EQ(seen[1][0].param_name, "k");
  // The default validator reports the difference, unless each process saves for
  // itself.
  EXPECT_EQ(MakeHandler()->Finalize(scratch.path()).code(),
            StatusCode::kInvalidArgument);
  options.multiprocessing_options.primary_host = std::nullopt;
  EXPECT_TRUE(MakeHandler(options)->Finalize(scratch.path()).ok());
}

}  // namespace
}  // namespace holdfast
