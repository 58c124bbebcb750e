#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "holdfast/orbax/spec.h"
#include "orbax/tspec/result_test_util.h"

namespace holdfast {
namespace {

TEST(ArraySpecTest, ReadSpec) {
  const auto read = ArrayReadSpec::Make(
      "/a", "w", {.use_ocdbt = false, .target_dtype = DType::kBfloat16});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->json(),
            R"({"base":{"driver":"zarr","kvstore":{"driver":"file",)"
            R"("path":"/a/w"},"recheck_cached_data":false,)"
            R"("recheck_cached_metadata":false,)"
            R"("fill_missing_data_reads":false},"driver":"cast",)"
            R"("dtype":"bfloat16"})");
}

TEST(ArraySpecTest, WriteSpec) {
  ArrayWriteSpecOptions options;
  options.global_shape = {6, 4};
  options.write_shape = {3, 4};
  options.target_dtype = DType::kInt8;
  options.chunk_byte_size = 4;
  options.use_zarr3 = true;
  options.use_ocdbt = false;
  const auto write = ArrayWriteSpec::Make("/a", "w", options);
  ASSERT_TRUE(write.ok());
  EXPECT_EQ(
      write->json(),
      R"({"base":{"driver":"zarr3","kvstore":{"driver":"file","path":"/a/w"},)"
      R"("recheck_cached_data":false,"recheck_cached_metadata":false,)"
      R"("store_data_equal_to_fill_value":true,"metadata":{"shape":[6,4],)"
      R"("chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1,4]}},)"
      R"("codecs":[{"name":"sharding_indexed","configuration":{)"
      R"("chunk_shape":[1,4],"codecs":[{"name":"bytes","configuration":)"
      R"({"endian":"little"}},{"name":"zstd","configuration":{"level":3}}],)"
      R"("index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},)"
      R"({"name":"crc32c"}],"index_location":"end"}}]},"dtype":"int8"},)"
      R"("driver":"cast","dtype":"float32"})");
  EXPECT_EQ(write->metadata().chunk_shape, (Shape{1, 4}));
  EXPECT_EQ(write->metadata().compression_algorithm, "zstd");
  EXPECT_EQ(write->metadata().compression_level, 3);
}

TEST(ArraySpecTest, Zarr2Metadata) {
  EXPECT_EQ(BuildZarrShardAndChunkMetadata({.global_shape = {6},
                                            .shard_shape = {3},
                                            .use_zarr3 = false,
                                            .chunk_shape = {3}}),
            R"({"shape":[6],"chunks":[3],)"
            R"("compressor":{"id":"zstd","level":1}})");
  EXPECT_EQ(BuildZarrShardAndChunkMetadata(
                {.global_shape = {}, .use_compression = false}),
            R"({"shape":[],"chunks":[],"compressor":null})");
}

TEST(ArraySpecTest, OlderMetadataHasShapesOfItsOwn) {
  TsZarrShardAndChunkMetadataOptions options;
  options.global_shape = {8, 8};
  options.shard_shape = {8, 4};
  options.use_zarr3 = true;
  options.write_chunk_shape = Shape{4, 4};
  options.read_chunk_shape = Shape{2, 4};
  EXPECT_EQ(
      Text(BuildTsZarrShardAndChunkMetadata(options)),
      R"({"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4,4])"
      R"(}},"codecs":[{"name":"sharding_indexed","configuration":{)"
      R"("chunk_shape":[2,4],"codecs":[{"name":"bytes","configuration":)"
      R"({"endian":"little"}},{"name":"zstd"}],"index_codecs":[)"
      R"({"name":"bytes","configuration":{"endian":"little"}},)"
      R"({"name":"crc32c"}],"index_location":"end"}}]})");
  options.read_chunk_shape = Shape{3, 4};
  EXPECT_EQ(Text(BuildTsZarrShardAndChunkMetadata(options)),
            "INVALID_ARGUMENT: read_chunk_shape=(3, 4) is not a divisor of "
            "write_chunk_shape=(4, 4)");
  options.write_chunk_shape = Shape{4, 3};
  EXPECT_EQ(Text(BuildTsZarrShardAndChunkMetadata(options)),
            "INVALID_ARGUMENT: write_chunk_shape=(4, 3) is not a divisor of "
            "shard_shape=(8, 4)");
  options.use_zarr3 = false;
  EXPECT_EQ(Text(BuildTsZarrShardAndChunkMetadata(options)),
            "INVALID_ARGUMENT: Zarr3 is not enabled when `write_chunk_shape`, "
            "`read_chunk_shape` or `chunk_byte_size` is specified.");
  options = {};
  options.shard_shape = {0, 3};
  EXPECT_EQ(Text(BuildTsZarrShardAndChunkMetadata(options)),
            R"({"chunks":[1,3],"compressor":{"id":"zstd"}})");
}

TEST(ArraySpecTest, ChunkBytesFitADataFile) {
  const auto calculate = [](const Shape& shape, ChunkByteSizeOptions options) {
    return *CalculateChunkByteSize(shape, DType::kFloat32, options);
  };
  EXPECT_EQ(calculate({1 << 30}, {}), int64_t{1} << 31);
  EXPECT_EQ(calculate({1 << 20}, {}), std::nullopt);
  EXPECT_EQ(calculate({1 << 30}, {.ocdbt_target_data_file_size = 0}),
            std::nullopt);
  EXPECT_EQ(calculate({1 << 30}, {.kvstore_spec = R"({"base":"gs://b/x"})"}),
            400 << 20);
}

TEST(InfoSpecTest, NeedsANameAndADirectory) {
  ParamInfo info;
  info.name = "w";
  EXPECT_EQ(Text(GetJsonTspecRead(info, true)),
            "INVALID_ARGUMENT: Must provide info.name and info.parent_dir.");
}

TEST(InfoSpecTest, SaveArgsDecideTheChunks) {
  ParamInfo info;
  info.name = "w";
  info.parent_dir = "/a";
  info.use_zarr3 = true;
  JsonTspecWriteOptions options;
  options.global_shape = options.local_shape = {8};
  SaveArgs args;
  args.write_chunk_shape = Shape{4};
  args.read_chunk_shape = Shape{2};
  const std::string tspec = Text(GetJsonTspecWrite(info, true, options, args));
  EXPECT_THAT(tspec, ::testing::HasSubstr(
                         R"("chunk_grid":{"name":"regular","configuration":)"
                         R"({"chunk_shape":[4]}})"));
  EXPECT_THAT(tspec,
              ::testing::HasSubstr(R"("configuration":{"chunk_shape":[2],)"));
  info.use_zarr3 = false;
  EXPECT_THAT(Text(GetJsonTspecWrite(info, true, options, args)),
              ::testing::HasSubstr("Zarr3 is not enabled"));
}

TEST(InfoSpecTest, Casts) {
  SaveArgs save;
  save.dtype = DType::kBfloat16;
  EXPECT_EQ(Text(GetCastTspecSerialize(R"({"driver":"zarr"})", DType::kFloat32,
                                       save)),
            R"({"base":{"driver":"zarr","dtype":"bfloat16"},"driver":"cast",)"
            R"("dtype":"float32"})");
  RestoreArgs restore;
  EXPECT_EQ(Text(GetCastTspecDeserialize("{}", restore)), "{}");
  restore.dtype = DType::kInt4;
  EXPECT_EQ(Text(GetCastTspecDeserialize("{}", restore)),
            R"({"base":{},"driver":"cast","dtype":"int4"})");
}

TEST(InfoSpecTest, ShardingIsAMemberOfADocument) {
  EXPECT_EQ(Text(GetShardingTensorstoreSpec("/a", "x?\xc3\xa9")),
            R"({"driver":"json","kvstore":{"driver":"file",)"
            R"("path":"/a/_sharding"},"json_pointer":"/eD_DqQ=="})");
}

TEST(InfoSpecTest, ParameterFiles) {
  const std::string directory = ::testing::TempDir() + "holdfast_info_spec";
  std::filesystem::remove_all(directory);
  EXPECT_EQ(AssertParameterFilesExist(directory).ToString(),
            "NOT_FOUND: Individual parameter subdirectory not found at path: " +
                directory + ".");
  std::filesystem::create_directory(directory);
  EXPECT_EQ(AssertParameterFilesExist(directory, {}, true).ToString(),
            "NOT_FOUND: File not found: " + directory +
                "/zarr.json. In many cases, this results from copying a "
                "checkpoint without using the `-a` flag.");
  std::ofstream(directory + "/.zarray") << "{}";
  EXPECT_TRUE(AssertParameterFilesExist(directory).ok());
}

TEST(TsContextTest, LimitsBoundTheThreads) {
  EXPECT_EQ(GetTsContext()->json(),
            R"({"file_io_concurrency":{"limit":128},)"
            R"("cache_pool#ocdbt":{"total_bytes_limit":100000000}})");
  const auto context = GetTsContext({.use_ocdbt = false,
                                     .file_io_concurrency_limit = 3,
                                     .data_copy_concurrency_limit = 5});
  EXPECT_EQ(context->json(), R"({"file_io_concurrency":{"limit":3},)"
                             R"("data_copy_concurrency":{"limit":5}})");
  EXPECT_EQ(context->run_options().threads, 3);
  EXPECT_EQ(GetTsContext()->run_options().threads, 0);
  EXPECT_EQ(GetTsContext({.file_io_concurrency_limit = 0}).status().ToString(),
            "INVALID_ARGUMENT: Error parsing object member \"limit\": Expected "
            "integer in the range [1, 18446744073709551615], but received: 0");
}

TEST(TsContextTest, DebugDataEndsWithKeyAndNames) {
  ParamInfo info;
  info.name = "w";
  const std::string text = PrintTsDebugData("k", {info});
  EXPECT_THAT(text, ::testing::EndsWith(R"({"key":"k"},{"infos":["w"]}])"));
  EXPECT_THAT(text, ::testing::HasSubstr("/holdfast/io/bytes_read"));
}

}  // namespace
}  // namespace holdfast
