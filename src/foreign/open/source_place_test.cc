#include "foreign/open/source_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "holdfast/holdfast.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Returns a model with one tensor of one byte.
std::string SafetensorsOf(const std::string& tensor) {
  const std::string header =
      R"({")" + tensor +
      R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  return text + header + "x";
}

constexpr const char* kIndex =
    R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
                       "b": "model-00002-of-00002.safetensors"}})";

// A cache like the one that the hub's tools keep: a snapshot of links to files
// next to it.
class SourcePlaceTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HF_HUB_CACHE", cache_.path().c_str(), 1);
    ::unsetenv("TRANSFORMERS_OFFLINE");
    SetOffline(false);
    fs::create_directories(folder_ + "/refs");
    fs::create_directories(folder_ + "/blobs");
    fs::create_directories(snapshot_);
    std::ofstream(folder_ + "/refs/main") << commit_;
  }
  void TearDown() override {
    ::unsetenv("HF_HUB_CACHE");
    ::unsetenv("HF_HUB_OFFLINE");
  }
  static void SetOffline(bool offline) {
    ::setenv("HF_HUB_OFFLINE", offline ? "1" : "0", 1);
  }
  void Add(const std::string& name, const std::string& content) {
    const std::string blob = std::to_string(++blob_count_);
    std::ofstream(folder_ + "/blobs/" + blob) << content;
    const fs::path link = snapshot_ + "/" + name;
    fs::create_directories(link.parent_path());
    fs::create_symlink(
        fs::relative(folder_ + "/blobs/" + blob, link.parent_path()), link);
  }
  static std::string Found(const std::string& url) {
    const Result<Place> place = SourcePlace(url);
    return place.ok() ? place->path() : place.status().ToString();
  }
  // Returns the error of an offline reader.
  static Status Offline(const std::string& url) {
    SetOffline(true);
    Status status = Open(url).status();
    SetOffline(false);
    return status;
  }

  const ScratchDirectory cache_;
  const std::string commit_ = std::string(40, 'a');
  const std::string folder_ = cache_ / "models--org--m";
  const std::string snapshot_ = folder_ + "/snapshots/" + commit_;
  int blob_count_ = 0;
};

TEST_F(SourcePlaceTest, AWholeSnapshotStandsForItsRepository) {
  Add("model.safetensors", SafetensorsOf("w"));
  Add("sub/other.safetensors", SafetensorsOf("v"));
  EXPECT_EQ(Found("hf://org/m"), snapshot_);
  EXPECT_EQ(Found("hf://org/m@main/"), snapshot_);
  EXPECT_EQ(Found("hf://org/m@" + commit_), snapshot_);
  EXPECT_EQ(Found("hf://org/m/model.safetensors"),
            snapshot_ + "/model.safetensors");
  EXPECT_EQ(Found("hf://org/m/sub"), snapshot_ + "/sub");
  EXPECT_EQ(Found("hf://org/m/sub/../../../x/../model.safetensors"),
            snapshot_ + "/model.safetensors");
  const auto opened = Open("hf://org/m");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->info().format, "safetensors");
  EXPECT_EQ((*opened)->leaves()[0].name, "w");
  EXPECT_TRUE(Verify("hf://org/m").ok());
  EXPECT_TRUE(Load("hf://org/m/sub").ok());
}

TEST_F(SourcePlaceTest, WhatTheCacheLacksIsReadFromTheHub) {
  for (const char* url :
       {"hf://org/m", "hf://org/other", "hf://org/m@v2", "hf://org/m/x",
        "hf://datasets/org/m", "gs://b/x", "https://h/x"}) {
    EXPECT_EQ(Found(url), url);
  }
  EXPECT_EQ(Found("/a/../b"), "/b");
}

TEST_F(SourcePlaceTest, AnIndexNamesTheFilesThatMustBeThere) {
  Add("model.safetensors.index.json", kIndex);
  EXPECT_EQ(Found("hf://org/m"), "hf://org/m");
  Add("model-00001-of-00002.safetensors", SafetensorsOf("a"));
  EXPECT_EQ(Found("hf://org/m"), "hf://org/m");
  const std::string index = "hf://org/m/model.safetensors.index.json";
  EXPECT_EQ(Found(index), index);
  const Status missing = Offline("hf://org/m");
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.ToString(),
              HasSubstr("model-00002-of-00002.safetensors is missing"));
  EXPECT_THAT(missing.ToString(), HasSubstr("hf download org/m"));
  Add("model-00002-of-00002.safetensors", SafetensorsOf("b"));
  EXPECT_EQ(Found("hf://org/m"), snapshot_);
  EXPECT_EQ(Found(index), snapshot_ + "/model.safetensors.index.json");
  // A download was interrupted.
  fs::remove(folder_ + "/blobs/3");
  EXPECT_EQ(Found("hf://org/m"), "hf://org/m");
}

TEST_F(SourcePlaceTest, NamesOfPartsSayHowManyThereMustBe) {
  Add("x-00002-of-00002.safetensors", SafetensorsOf("b"));
  EXPECT_EQ(Found("hf://org/m"), "hf://org/m");
  Add("x-00001-of-00002.safetensors", SafetensorsOf("a"));
  EXPECT_EQ(Found("hf://org/m"), snapshot_);
  // Only this file was requested.
  EXPECT_EQ(Found("hf://org/m/x-00002-of-00002.safetensors"),
            snapshot_ + "/x-00002-of-00002.safetensors");
}

TEST_F(SourcePlaceTest, FormatsThatFollowNoLinksAreReadFromTheHub) {
  Add("_METADATA", "{}");
  Add("manifest.ocdbt", "x");
  EXPECT_EQ(Found("hf://org/m"), "hf://org/m");
  EXPECT_THAT(Offline("hf://org/m").ToString(),
              HasSubstr("links are followed for no others"));
}

TEST_F(SourcePlaceTest, OfflineSaysWhatIsMissing) {
  Add("config.json", "{}");
  EXPECT_THAT(Offline("hf://org/m").ToString(), HasSubstr("has no weights"));
  EXPECT_THAT(Offline("hf://org/m/x.npz").ToString(),
              HasSubstr("x.npz is missing"));
  EXPECT_THAT(Offline("hf://org/other").ToString(),
              HasSubstr("has no snapshot of it"));
}

TEST_F(SourcePlaceTest, WhatIsNoNameIsRefused) {
  for (const char* url : {"hf://x", "hf://../m", "hf://org/m@../../x"}) {
    EXPECT_EQ(Open(url).status().code(), StatusCode::kInvalidArgument) << url;
    EXPECT_EQ(Verify(url).status().code(), StatusCode::kInvalidArgument) << url;
  }
}

TEST_F(SourcePlaceTest, NothingIsWrittenIntoTheCache) {
  Add("model.safetensors", SafetensorsOf("w"));
  const Tree tree(7);
  for (const char* url : {"hf://org/m/new", "hf://org/m"}) {
    const Status status = Save(url, tree).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.ToString();
  }
  EXPECT_FALSE(fs::exists(snapshot_ + "/new"));
}

}  // namespace
}  // namespace holdfast
