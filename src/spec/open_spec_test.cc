#include "holdfast/open_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpenSpecTest : public ::testing::Test {
 protected:
  OpenSpecTest() { options_.memory = SpecMemory::Make(); }

  Result<std::unique_ptr<SpecHandle>> Open(const std::string& json) {
    return OpenSpec(json, options_);
  }
  std::string ErrorOf(const std::string& json) {
    return Open(json).status().ToString();
  }

  OpenSpecOptions options_;
};

Array Numbers(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(ElementCount(shape)));
  std::iota(values.begin(), values.end(), 0.5f);
  return Array::FromBytes(DType::kFloat32, shape, values.data());
}

std::string BytesOf(const Array& array) {
  return {array.view().data, array.byte_count()};
}

constexpr char kMetadata2[] =
    R"("metadata":{"shape":[6,4],"chunks":[2,4],"compressor":{"id":"zstd"}},)"
    R"("dtype":"float32","create":true)";

TEST_F(OpenSpecTest, ArraysAreMadeAndReadBack) {
  for (const char* const name : {"zarr", "zarr3"}) {
    const std::string driver = name;
    for (const std::string& kvstore : std::vector<std::string>{
             R"("memory://)" + driver + R"(/")",
             R"({"driver":"ocdbt","base":"memory://db/","path":")" + driver +
                 R"("})"}) {
      const std::string start =
          R"({"driver":")" + driver + R"(","kvstore":)" + kvstore;
      const std::string metadata =
          driver == "zarr" ? kMetadata2
                           : R"("metadata":{"shape":[6,4],"codecs":[)"
                             R"({"name":"zstd"}]},"dtype":"float32",)"
                             R"("create":true)";
      auto made = Open(start + "," + metadata + "}");
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      const Array values = Numbers({6, 4});
      ASSERT_TRUE((*made)->Write({0, 0}, values.view()).ok());
      ASSERT_TRUE((*made)->Commit().ok());
      EXPECT_EQ((*made)->shape(), (Shape{6, 4}));
      const auto opened = Open(start + "}");
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      EXPECT_EQ(BytesOf(*(*opened)->Read({0, 0}, {6, 4})), BytesOf(values));
      EXPECT_THAT(
          ErrorOf(start + "," + metadata + "}"),
          HasSubstr("ALREADY_EXISTS: Error opening \"" + driver + "\" driver"));
    }
  }
}

TEST_F(OpenSpecTest, DatabasesChangeByCommitAlone) {
  const std::string spec =
      R"({"driver":"zarr","kvstore":"memory://db/|ocdbt:w/")";
  auto made = Open(spec + "," + kMetadata2 + "}");
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  ASSERT_TRUE((*made)->Write({0, 0}, Numbers({6, 4}).view()).ok());
  EXPECT_EQ(Open(spec + "}").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE((*made)->Commit().ok());
  EXPECT_TRUE(Open(spec + "}").ok());
}

TEST_F(OpenSpecTest, CastsGoThroughTheirDType) {
  const std::string zarr = R"({"driver":"zarr","kvstore":"memory://a/",)" +
                           std::string(kMetadata2) + "}";
  auto made = Open(R"({"driver":"cast","dtype":"int32","base":)" + zarr + "}");
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ((*made)->dtype(), DType::kInt32);
  ASSERT_TRUE((*made)->Write({0, 0}, Numbers({6, 4}).view()).ok());
  const auto read = Open(R"({"driver":"zarr","kvstore":"memory://a/"})");
  const Array one = *(*read)->Read({1, 2}, {1, 1});
  EXPECT_EQ(*reinterpret_cast<const float*>(one.view().data), 6.0f);
  EXPECT_EQ((*read)->Read({1, 2}, {9, 1}).status().ToString(),
            "OUT_OF_RANGE: box of shape (9, 1) at (1, 2) is not within the "
            "array's shape (6, 4)");
}

TEST_F(OpenSpecTest, WhatExistsMustBeAsTheSpecSays) {
  const std::string start = R"({"driver":"zarr","kvstore":"memory://a/")";
  ASSERT_TRUE(Open(start + "," + kMetadata2 + "}").ok());
  EXPECT_TRUE(Open(start + R"(,"metadata":{"shape":[6,4]}})").ok());
  EXPECT_EQ(ErrorOf(start + R"(,"metadata":{"shape":[5,4]}})"),
            "FAILED_PRECONDITION: Error opening \"zarr\" driver: Expected "
            "\"shape\" of [5,4] but received: [6,4]");
  EXPECT_EQ(ErrorOf(start + R"(,"dtype":"int32"})"),
            "FAILED_PRECONDITION: Error opening \"zarr\" driver: dtype from "
            "metadata (float32) does not match dtype in schema (int32)");
  EXPECT_TRUE(Open(start +
                   R"(,"delete_existing":true,"create":true,"dtype":"int8",)"
                   R"("metadata":{"shape":[3]}})")
                  .ok());
  EXPECT_EQ((*Open(start + "}"))->shape(), (Shape{3}));
}

TEST_F(OpenSpecTest, MissingChunksAreFilledOrRefused) {
  const std::string start = R"({"driver":"zarr","kvstore":"memory://a/")";
  ASSERT_TRUE(Open(start + "," + kMetadata2 + "}").ok());
  const auto filled = Open(start + "}");
  EXPECT_EQ(BytesOf(*(*filled)->Read({0, 0}, {2, 4})), std::string(32, '\0'));
  const auto refused = Open(start + R"(,"fill_missing_data_reads":false})");
  EXPECT_EQ((*refused)->Read({0, 0}, {2, 4}).status().code(),
            StatusCode::kNotFound);
}

TEST_F(OpenSpecTest, AssumedMetadataIsNotRead) {
  const std::string start = R"({"driver":"zarr","kvstore":"memory://a/",)"
                            R"("assume_metadata":true)";
  EXPECT_EQ(ErrorOf(start + "}"),
            "INVALID_ARGUMENT: Error opening \"zarr\" driver: Cannot create "
            "using specified \"metadata\" and schema: \"dtype\" must be "
            "specified");
  EXPECT_TRUE(
      Open(start + R"(,"metadata":{"shape":[3]},"dtype":"int8"})").ok());
}

TEST_F(OpenSpecTest, ArraysSayWhatTheyAre) {
  const auto opened = Open(R"({"driver":"zarr","kvstore":"memory://a/",)" +
                           std::string(kMetadata2) + "}");
  ParamInfo info;
  info.name = "w";
  info.parent_dir = "/d";
  info.write_shape = Shape{3, 4};
  const ArrayMetadata metadata =
      ArrayMetadataFromTensorstore(**opened, info, SingleDeviceSharding());
  EXPECT_EQ(metadata.name, "w");
  EXPECT_EQ(metadata.directory, "/d");
  EXPECT_EQ(metadata.shape, (Shape{6, 4}));
  EXPECT_EQ(metadata.dtype, DType::kFloat32);
  EXPECT_EQ(metadata.storage->chunk_shape, (Shape{2, 4}));
  EXPECT_EQ(metadata.storage->write_shape, (Shape{3, 4}));
  EXPECT_TRUE(metadata.sharding.has_value());
}

TEST_F(OpenSpecTest, MembersOfDocuments) {
  const auto open = [&](const std::string& pointer) {
    return *Open(R"({"driver":"json","kvstore":"memory://doc",)"
                 R"("json_pointer":")" +
                 pointer + R"("})");
  };
  EXPECT_EQ(open("/a")->ReadJson().status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(open("/a/b~1c")->WriteJson(R"([1,{"x":null}])").ok());
  ASSERT_TRUE(open("/a/b~1c/0")->WriteJson("2.5").ok());
  ASSERT_TRUE(open("/a/b~1c/-")->WriteJson("\"end\"").ok());
  EXPECT_EQ(*open("")->ReadJson(), R"({"a":{"b/c":[2.5,{"x":null},"end"]}})");
  EXPECT_EQ(*open("/a/b~1c/1/x")->ReadJson(), "null");
  EXPECT_THAT(open("/q/x")->ReadJson().status().ToString(),
              HasSubstr("JSON Pointer \"/q\" refers to non-existent object "
                        "member"));
  EXPECT_THAT(open("/a/b~1c/7")->WriteJson("1").ToString(),
              HasSubstr("JSON Pointer \"/a/b~1c/7\" is out-of-range for array "
                        "of size 3"));
  EXPECT_THAT(open("/a/b~1c/0/x")->ReadJson().status().ToString(),
              HasSubstr("JSON Pointer reference \"/a/b~1c/0/x\" cannot be "
                        "applied to number value: 2.5"));
}

TEST_F(OpenSpecTest, RemoteStoresAreCheckedAndThenRefused) {
  EXPECT_EQ(ErrorOf(R"({"driver":"zarr","kvstore":"gs://bucket/x"})"),
            "UNIMPLEMENTED: KvStore driver \"gcs\" is not part of this release "
            "yet");
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":"gs://B/x"})"),
              HasSubstr("Invalid GCS bucket name: \"B\""));
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":{"driver":"s3",)"
                      R"("bucket":"abc","foo":1}})"),
              HasSubstr("Object includes extra members: \"foo\""));
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":{"driver":"ocdbt",)"
                      R"("base":"s3://bucket/x"}})"),
              HasSubstr("\"s3\" is not part of this release yet"));
}

TEST_F(OpenSpecTest, HostileTextIsRefused) {
  for (const char* const json :
       {"", "[", "5", "null", "\"x\"", R"({"driver":5})",
        R"({"driver":"zarr","kvstore":{"driver":"ocdbt"}})",
        R"({"driver":"zarr","kvstore":"memory://","create":true,)"
        R"("dtype":"int8","metadata":{"shape":[-1]}})",
        R"({"driver":"zarr3","kvstore":"memory://","create":true,)"
        R"("dtype":"int8","metadata":{"shape":[2],"codecs":[5]}})",
        R"({"driver":"zarr3","kvstore":"memory://","create":true,)"
        R"("dtype":"int8","metadata":{"shape":[2],"codecs":[{"name":"zstd",)"
        R"("configuration":5}]}})"}) {
    const auto opened = Open(json);
    EXPECT_FALSE(opened.ok()) << json;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"driver":"cast","base":)";
  EXPECT_FALSE(Open(deep).ok());
}

TEST(OpenKvStoreTest, FilesHaveThePathInFront) {
  const std::string root = ::testing::TempDir() + "holdfast_open_kv/";
  std::filesystem::remove_all(root);
  const auto store =
      OpenKvStore(R"({"driver":"file","path":")" + root + R"(p"})");
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  ASSERT_TRUE((*store)->Write("1", "one").ok());
  ASSERT_TRUE((*store)->Write("2", "two").ok());
  ASSERT_TRUE((*store)->Delete("2").ok());
  EXPECT_THAT(*(*store)->List(), ElementsAre("1"));
  EXPECT_EQ(*(*OpenKvStore(R"("file://)" + root + R"(")"))->Read("p1"), "one");
  EXPECT_EQ((*store)->Read("2").status().code(), StatusCode::kNotFound);
}

TEST(OpenKvStoreTest, DatabasesNest) {
  OpenSpecOptions options;
  options.memory = SpecMemory::Make();
  const std::string url = R"("memory://a/|ocdbt:in/|ocdbt:k/")";
  const auto store = OpenKvStore(url, options);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  ASSERT_TRUE((*store)->Write("x", std::string(3000, 'x')).ok());
  EXPECT_TRUE((*OpenKvStore(url, options))->List()->empty());
  ASSERT_TRUE((*store)->Commit().ok());
  EXPECT_EQ(*(*OpenKvStore(url, options))->Read("x"), std::string(3000, 'x'));
  const auto inner = OpenKvStore(R"("memory://a/|ocdbt:in/")", options);
  EXPECT_THAT(*(*inner)->List("man"), ElementsAre("manifest.ocdbt"));
}

}  // namespace
}  // namespace holdfast
