#include "holdfast/orbax/open_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "stores/place/bucket_registry.h"
#include "twins/memory_bucket.h"

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

// A bucket in memory replaces each store.
class RemoteSpecTest : public OpenSpecTest {
 protected:
  void SetUp() override {
    for (const char* const scheme : {"gs", "s3", "https"}) {
      BucketRegistry::Default().Register(
          scheme,
          [this](const std::string& root, const RemoteOptions& options) {
            roots_.push_back(root);
            remote_options_ = options;
            return Result<std::shared_ptr<Bucket>>(bucket_);
          });
    }
  }

  std::shared_ptr<MemoryBucket> bucket_ = std::make_shared<MemoryBucket>();
  std::vector<std::string> roots_;
  RemoteOptions remote_options_;
};

TEST_F(RemoteSpecTest, StoresAreWrittenAndReadByObjectAndByUrl) {
  const std::pair<std::string, std::string> pairs[] = {
      {R"({"driver":"gcs","bucket":"abc","path":"a/b/"})", "gs://abc/a/b/"},
      {R"({"driver":"s3","bucket":"abc","path":"c/d"})", "s3://abc/c/d"},
      {R"({"driver":"s3","bucket":"abc","path":"e"})", "s3://abc/e"},
  };
  for (const auto& [object, url] : pairs) {
    SCOPED_TRACE(url);
    auto written = OpenKvStore(object);
    ASSERT_TRUE(written.ok()) << written.status().ToString();
    ASSERT_TRUE((*written)->Write("x", "one").ok());
    ASSERT_TRUE((*written)->Write("y/z", "two").ok());
    ASSERT_TRUE((*written)->Commit().ok());
    auto read = OpenKvStore('"' + url + '"');
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*(*read)->Read("x"), "one");
    EXPECT_THAT(*(*read)->List(), ElementsAre("x", "y/z"));
    EXPECT_EQ((*read)->spec_json(), (*written)->spec_json());
    EXPECT_EQ((*read)->Read("none").status().code(), StatusCode::kNotFound);
    ASSERT_TRUE((*read)->Delete("x").ok());
    EXPECT_THAT(*(*written)->List(), ElementsAre("y/z"));
  }
  EXPECT_TRUE(bucket_->Head("a/b/y/z").ok());
  EXPECT_TRUE(bucket_->Head("c/dy/z").ok());
  EXPECT_TRUE(bucket_->Head("ey/z").ok());
}

TEST_F(RemoteSpecTest, ArraysOnOcdbtOnABucket) {
  const std::string spec =
      R"({"driver":"zarr","kvstore":"s3://abc/db/|ocdbt:w/",)"
      R"("metadata":{"shape":[4],"chunks":[2],"dtype":"<i4"},"create":true})";
  auto handle = Open(spec);
  ASSERT_TRUE(handle.ok()) << handle.status().ToString();
  const std::vector<int32_t> values = {1, 2, 3, 4};
  const Array array = Array::FromBytes(DType::kInt32, {4}, values.data());
  ASSERT_TRUE((*handle)->Write({0}, array.view()).ok());
  ASSERT_TRUE((*handle)->Commit().ok());
  auto again = Open(R"({"driver":"zarr","kvstore":{"driver":"ocdbt","base":)"
                    R"({"driver":"s3","bucket":"abc","path":"db/"},)"
                    R"("path":"w/"}})");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  const auto read = (*again)->Read({0}, {4});
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(std::memcmp(read->view().data, values.data(), 16), 0);
}

TEST_F(RemoteSpecTest, WhatASpecSaysOfTheStoreCounts) {
  ASSERT_TRUE(
      OpenKvStore(R"({"driver":"s3","bucket":"own","endpoint":"http://h:1",)"
                  R"("aws_region":"r","requester_pays":true,)"
                  R"("use_conditional_write":false,)"
                  R"("aws_credentials":{"type":"profile","profile":"p"}})")
          .ok());
  EXPECT_EQ(roots_.back(), "s3://own");
  EXPECT_EQ(remote_options_.endpoint, "http://h:1");
  EXPECT_EQ(remote_options_.region, "r");
  EXPECT_EQ(remote_options_.profile, "p");
  EXPECT_TRUE(remote_options_.requester_pays);
  const size_t opened = roots_.size();
  auto handle =
      OpenKvStore(R"({"driver":"s3","bucket":"own","path":"q","endpoint":)"
                  R"("http://h:1","aws_region":"r","requester_pays":true,)"
                  R"("aws_credentials":{"type":"profile","profile":"p"}})");
  EXPECT_EQ(roots_.size(), opened) << "the same store is not opened twice";
  auto copy = OpenKvStore((*handle)->spec_json());
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  EXPECT_EQ((*copy)->spec_json(), (*handle)->spec_json());
  ASSERT_TRUE(OpenKvStore(R"({"driver":"gcs","bucket":"own",)"
                          R"("gcs_user_project":{"project_id":"u"}})")
                  .ok());
  EXPECT_EQ(remote_options_.user_project, "u");
  ASSERT_TRUE(OpenKvStore(R"({"driver":"s3","bucket":"other",)"
                          R"("aws_credentials":{"type":"anonymous"}})")
                  .ok());
  EXPECT_TRUE(remote_options_.anonymous);
}

// These spellings are those of TensorStore's documentation.
TEST_F(RemoteSpecTest, WebServersAreReadByAnySpelling) {
  const std::string_view text = "text";
  ASSERT_TRUE(bucket_->Put("my/path/to/my data", {&text, 1}).ok());
  for (
      const char* const json :
      {R"({"driver":"http","base_url":"https://h/my/path/","path":"to/my data"})",
       R"({"driver":"http","base_url":"https://h/my/path","path":"to/my data"})",
       R"({"driver":"http","base_url":"https://h/my/path/to/my%20data"})",
       R"({"driver":"http","base_url":"https://h","path":"/my/path/to/my data"})",
       R"("https://h/my/path/to/my%20data")"}) {
    SCOPED_TRACE(json);
    auto handle = OpenKvStore(json);
    ASSERT_TRUE(handle.ok()) << handle.status().ToString();
    EXPECT_EQ(*(*handle)->Read(""), "text");
  }
  const auto error = [](const char* json) {
    return OpenKvStore(json).status().ToString();
  };
  EXPECT_THAT(error(R"({"driver":"http","base_url":"ftp://h"})"),
              HasSubstr("Invalid HTTP URL"));
  EXPECT_THAT(
      error(R"({"driver":"http","base_url":"https://h/a","path":"/b"})"),
      HasSubstr("absolute path"));
  EXPECT_THAT(error(R"({"driver":"http","base_url":"https://h",)"
                    R"("headers":["Authorization: secret"]})"),
              HasSubstr("\"headers\" of driver \"http\" is not part"));
}

TEST_F(OpenSpecTest, SpecsOfRemoteStoresAreChecked) {
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":"gs://B/x"})"),
              HasSubstr("Invalid GCS bucket name: \"B\""));
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":{"driver":"s3",)"
                      R"("bucket":"abc","foo":1}})"),
              HasSubstr("Object includes extra members: \"foo\""));
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":{"driver":"s3",)"
                      R"("bucket":"abc","host_header":"x"}})"),
              HasSubstr("\"host_header\" of driver \"s3\" is not part"));
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":{"driver":"s3",)"
                      R"("bucket":"abc","aws_credentials":{"type":"x"}}})"),
              HasSubstr("credentials provider"));
  EXPECT_THAT(ErrorOf(R"({"driver":"zarr","kvstore":{"driver":"gcs_grpc",)"
                      R"("bucket":"abc"}})"),
              HasSubstr("\"gcs_grpc\" is not part of this release yet"));
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
