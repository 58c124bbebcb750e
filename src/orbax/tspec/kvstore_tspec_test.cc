#include "orbax/tspec/kvstore_tspec.h"

#include <gtest/gtest.h>

#include <string>

#include "orbax/tspec/result_test_util.h"

namespace holdfast {
namespace {

TEST(KvstoreTspecTest, OcdbtSplitsDataFilesAndManifest) {
  EXPECT_EQ(Text(BuildKvstoreTspec("/a/b", {.name = "n"})),
            R"({"driver":"ocdbt","base":{"driver":"file","path":"/a/b/",)"
            R"("file_io_locking":{"mode":"non_atomic"}},)"
            R"("manifest":{"driver":"file","path":"/a/b/"},"path":"n",)"
            R"("cache_pool":"cache_pool#ocdbt"})");
}

TEST(KvstoreTspecTest, FilesHaveTheNameInTheirPath) {
  EXPECT_EQ(
      Text(BuildKvstoreTspec("/a//b/", {.name = "n", .use_ocdbt = false})),
      R"({"driver":"file","path":"/a/b/n"})");
  EXPECT_EQ(Text(BuildKvstoreTspec("x/../y", {.use_ocdbt = false})),
            R"({"driver":"file","path":"y"})");
}

TEST(KvstoreTspecTest, GoogleStorageIsReadInLargerPieces) {
  EXPECT_EQ(Text(BuildKvstoreTspec("gs://bucket/a/", {})),
            R"({"driver":"ocdbt","base":{"driver":"gcs","bucket":"bucket",)"
            R"("path":"a"},"cache_pool":"cache_pool#ocdbt",)"
            R"("experimental_read_coalescing_threshold_bytes":1000000,)"
            R"("experimental_read_coalescing_merged_bytes":500000000000,)"
            R"("experimental_read_coalescing_interval":"1ms"})");
  EXPECT_EQ(Text(BuildKvstoreTspec("gs://?a", {.use_ocdbt = false})),
            "INVALID_ARGUMENT: The GCS path should contain the bucket name and "
            "the file path inside the bucket. Got: gs://?a");
}

TEST(KvstoreTspecTest, S3IsWrittenAsGoogleStorageIs) {
  EXPECT_EQ(Text(BuildKvstoreTspec("s3://bucket/a/", {})),
            R"({"driver":"ocdbt","base":{"driver":"s3","bucket":"bucket",)"
            R"("path":"a"},"cache_pool":"cache_pool#ocdbt",)"
            R"("experimental_read_coalescing_threshold_bytes":1000000,)"
            R"("experimental_read_coalescing_merged_bytes":500000000000,)"
            R"("experimental_read_coalescing_interval":"1ms"})");
  EXPECT_EQ(Text(BuildKvstoreTspec("s3://bucket/a//b",
                                   {.name = "n", .use_ocdbt = false})),
            R"({"driver":"s3","bucket":"bucket","path":"a/b/n"})");
  EXPECT_NE(
      Text(AddOcdbtWriteOptions(R"({"driver":"ocdbt","base":{"driver":"s3"}})"))
          .find(R"("target_data_file_size":419430400)"),
      std::string::npos);
  EXPECT_EQ(Text(BuildKvstoreTspec("s3://?a", {.use_ocdbt = false})),
            "INVALID_ARGUMENT: The S3 path should contain the bucket name and "
            "the file path inside the bucket. Got: s3://?a");
}

TEST(KvstoreTspecTest, ProcessesHaveSubdirectories) {
  const std::string merge =
      Text(BuildKvstoreTspecForMerge("/a", "ocdbt.process_replica_7"));
  EXPECT_EQ(merge,
            Text(BuildKvstoreTspec(
                "/a", {.process_id = "7", .replica_separate_folder = true})));
  EXPECT_NE(merge.find(R"("path":"/a/ocdbt.process_replica_7/")"),
            std::string::npos);
  EXPECT_EQ(Text(BuildKvstoreTspec("/a", {.process_id = "a b"})),
            "INVALID_ARGUMENT: process_id must conform to [A-Za-z0-9]+ pattern"
            ", got a b");
  EXPECT_EQ(OcdbtProcessSpec::Parse("ocdbt.process_replica_x")->process_id,
            "x");
  EXPECT_EQ(OcdbtProcessSpec::Parse("ocdbt.process_").status().ToString(),
            "INVALID_ARGUMENT: Bad string 'ocdbt.process_' for Orbax/OCDBT "
            "process spec");
  EXPECT_EQ(OcdbtProcessSpec::Make("").status().ToString(),
            "INVALID_ARGUMENT: Invalid OCDBT process id: . Must conform to "
            "[A-Za-z0-9]+ pattern.");
}

TEST(KvstoreTspecTest, RelativeDirectoriesAreRefusedForDatabases) {
  EXPECT_EQ(Text(BuildKvstoreTspec("a/./b", {})),
            "INVALID_ARGUMENT: Checkpoint path should be absolute. Got a/b");
}

TEST(KvstoreTspecTest, WriteOptions) {
  EXPECT_EQ(
      Text(AddOcdbtWriteOptions(R"({"driver":"ocdbt","base":"gs://b/x"})")),
      R"({"driver":"ocdbt","base":"gs://b/x","target_data_file_size":)"
      R"(419430400,"config":{"max_inline_value_bytes":1024,)"
      R"("max_decoded_node_bytes":100000000,"manifest_kind":"single"},)"
      R"("assume_config":true})");
  EXPECT_EQ(Text(AddOcdbtWriteOptions("{}", -1)),
            "INVALID_ARGUMENT: OCDBT target_data_file_size must be >= 0, where "
            "0 means no limit; got -1");
}

TEST(KvstoreTspecTest, TemporaryMetadataGoesThroughAStack) {
  KvstoreTspecOptions options;
  options.ocdbt_write_options =
      OcdbtKvStoreWriteOptions{.mode = OcdbtWriteMode::kMerge};
  options.ocdbt_temporary_metadata_context =
      OcdbtTemporaryMetadataContext{"/tmp/m"};
  EXPECT_EQ(Text(BuildKvstoreTspec("/a", options)),
            "INVALID_ARGUMENT: OCDBT merge mode does not support temporary "
            "metadata context.");
  options.ocdbt_write_options->mode = OcdbtWriteMode::kCommitTemporary;
  EXPECT_NE(
      Text(BuildKvstoreTspec("/a", options))
          .find(R"({"prefix":"ocdbt_tmp_meta/","base":"file:///tmp/m/"})"),
      std::string::npos);
  options.ocdbt_temporary_metadata_context.reset();
  EXPECT_EQ(Text(BuildKvstoreTspec("/a", options)),
            "INVALID_ARGUMENT: OCDBT commit mode requires temporary metadata "
            "context.");
}

TEST(KvstoreTspecTest, RemoteStorageIsFoundAtTheBottom) {
  EXPECT_TRUE(*IsRemoteStorage(R"({"kvstore":{"base":"s3://b/x"}})"));
  EXPECT_TRUE(*IsRemoteStorage(R"("gs://b")"));
  EXPECT_FALSE(*IsRemoteStorage(R"({"driver":"file"})"));
  EXPECT_EQ(IsRemoteStorage("{").status().code(), StatusCode::kInvalidArgument);
}

TEST(KvstoreTspecTest, PathsAreNormalizedAsPythonDoes) {
  for (const auto& [path, normal] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"", "."},
           {"//a", "//a"},
           {"///a", "/a"},
           {"/..", "/"},
           {"../a/..", ".."},
           {"a/../..", ".."},
           {"/a/./b//", "/a/b"}}) {
    EXPECT_EQ(spec::NormalizePath(path), normal) << path;
  }
}

}  // namespace
}  // namespace holdfast
