#include "holdfast/detail/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "twins/mem_bucket.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using Kind = PlaceInfo::Kind;

// Each test runs on a bucket and on a directory.
class PlacesTest : public ::testing::TestWithParam<bool> {
 protected:
  PlacesTest() {
    if (is_remote()) {
      root_ = "mem://test/root";
      return;
    }
    const auto* const test =
        ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("places_" + std::to_string(test->line()));
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~PlacesTest() override {
    if (!is_remote()) std::filesystem::remove_all(root_);
  }

  static bool is_remote() { return GetParam(); }
  std::string At(const std::string& name) const { return root_ + "/" + name; }

  MemBucketForTest mem_;
  std::string root_;
};

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  const auto entries = ListPlace(path);
  EXPECT_TRUE(entries.ok()) << entries.status().ToString();
  if (!entries.ok()) return names;
  for (const PlaceEntry& entry : *entries) {
    const bool is_directory = entry.info.kind == Kind::kDirectory;
    names.push_back(entry.name + (is_directory ? "/" : ""));
  }
  return names;
}

TEST_P(PlacesTest, LooksAndLists) {
  ASSERT_TRUE(WritePlace(At("d/a"), "12").ok());
  ASSERT_TRUE(WritePlace(At("d/a-b"), "").ok());
  ASSERT_TRUE(WritePlace(At("d/e/f/g"), "x").ok());
  EXPECT_THAT(NamesIn(At("d")), ElementsAre("a", "a-b", "e/"));
  EXPECT_EQ(StatPlace(At("d")).value().kind, Kind::kDirectory);
  EXPECT_EQ(StatPlace(At("d/e")).value().kind, Kind::kDirectory);
  EXPECT_EQ(StatPlace(At("d/")).value().kind, Kind::kDirectory);
  EXPECT_EQ(StatPlace(At("no")).value().kind, Kind::kMissing);
  EXPECT_EQ(StatPlace(At("d/a-")).value().kind, Kind::kMissing);
  const PlaceInfo file = StatPlace(At("d/a")).value();
  EXPECT_EQ(file.kind, Kind::kFile);
  EXPECT_EQ(file.byte_count, 2);
  EXPECT_GT(file.modified_ns, 1'000'000'000'000'000'000);
}

TEST_P(PlacesTest, ReadsAndWrites) {
  ASSERT_TRUE(WritePlace(At("f"), "one").ok());
  ASSERT_TRUE(WritePlace(At("f"), "two").ok());
  EXPECT_EQ(ReadPlace(At("f")).value(), "two");
  EXPECT_EQ(WritePlace(At("f"), "three", true).code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(WritePlace(At("g"), "three", true).ok());
  EXPECT_EQ(ReadPlace(At("no")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(PlaceReader::Open(At("no")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(RemovePlaceFile(At("no")).code(), StatusCode::kNotFound);
  EXPECT_TRUE(RemovePlaceFile(At("g")).ok());
  EXPECT_THAT(NamesIn(root_), ElementsAre("f"));
  EXPECT_TRUE(RemovePlaceTree(root_).ok());
  EXPECT_EQ(StatPlace(root_).value().kind, Kind::kMissing);
}

TEST_P(PlacesTest, ReadsAndWritesInPieces) {
  std::mt19937_64 random(1);
  std::string content(21'000'001, '\0');
  for (char& c : content) c = static_cast<char>(random());
  {
    auto writer = PlaceWriter::Open(At("large")).value();
    for (size_t at = 0; at < content.size(); at += 3'333'333) {
      const auto piece = std::string_view(content).substr(at, 3'333'333);
      ASSERT_TRUE(writer->Append(piece).ok());
    }
    EXPECT_EQ(StatPlace(At("large")).value().kind, Kind::kMissing);
    ASSERT_TRUE(writer->Finish().ok());
  }
  ASSERT_TRUE(CopyPlaceFile(At("large"), At("copy")).ok());
  for (const char* name : {"large", "copy"}) {
    auto reader = PlaceReader::Open(At(name)).value();
    ASSERT_EQ(reader->byte_count(), content.size());
    EXPECT_EQ(reader->Read(0, content.size()).value(), content);
    EXPECT_EQ(reader->Read(20'000'000, 7).value(),
              content.substr(20'000'000, 7));
    EXPECT_EQ(reader->Read(content.size(), 0).value(), "");
    EXPECT_EQ(reader->Read(content.size() - 1, 2).status().code(),
              StatusCode::kOutOfRange);
  }
}

TEST_P(PlacesTest, AWriterThatIsDroppedWritesNothing) {
  {
    auto writer = PlaceWriter::Open(At("f")).value();
    ASSERT_TRUE(writer->Append(std::string(20 << 20, 'x')).ok());
  }
  EXPECT_EQ(StatPlace(At("f")).value().kind, Kind::kMissing);
}

TEST_P(PlacesTest, Renames) {
  ASSERT_TRUE(WritePlace(At("a"), "1").ok());
  ASSERT_TRUE(WritePlace(At("b"), "2").ok());
  ASSERT_TRUE(RenamePlaceFile(At("a"), At("b")).ok());
  EXPECT_EQ(ReadPlace(At("b")).value(), "1");
  EXPECT_EQ(RenamePlaceFile(At("a"), At("b")).code(), StatusCode::kNotFound);
  ASSERT_TRUE(WritePlace(At("d/x/y"), "3").ok());
  ASSERT_TRUE(RenamePlaceDirectory(At("d"), At("e")).ok());
  EXPECT_THAT(NamesIn(root_), ElementsAre("b", "e/"));
  EXPECT_EQ(ReadPlace(At("e/x/y")).value(), "3");
  ASSERT_TRUE(WritePlace(At("d/z"), "4").ok());
  EXPECT_EQ(RenamePlaceDirectory(At("d"), At("e")).code(),
            StatusCode::kAlreadyExists);
}

INSTANTIATE_TEST_SUITE_P(Places, PlacesTest, ::testing::Bool(),
                         [](const auto& tested) {
                           return tested.param ? "Bucket" : "Directory";
                         });

class RemotePlacesTest : public ::testing::Test {
 protected:
  MemBucketForTest mem_;
};

TEST_F(RemotePlacesTest, DirectoriesAreWhatKeysHaveInCommon) {
  for (const char* key : {"d/", "d/m/", "d//x", "d/f"}) mem_.Put(key, "x");
  EXPECT_THAT(NamesIn("mem://test/d"), ElementsAre("f", "m/"));
  EXPECT_EQ(StatPlace("mem://test/d/m").value().kind, Kind::kDirectory);
  EXPECT_THAT(NamesIn("mem://test/none"), ElementsAre());
  EXPECT_EQ(StatPlace("mem://test").value().kind, Kind::kDirectory);
}

TEST_F(RemotePlacesTest, FindsADirectoryBehindManyNames) {
  for (int i = 0; i < 300; ++i) {
    mem_.Put("d-" + std::to_string(i), "");  // '-' sorts before '/'
  }
  mem_.Put("d/x", "");
  EXPECT_EQ(StatPlace("mem://test/d").value().kind, Kind::kDirectory);
  EXPECT_EQ(StatPlace("mem://test/d-").value().kind, Kind::kMissing);
  EXPECT_EQ(StatPlace("mem://test/d-7").value().kind, Kind::kFile);
}

TEST_F(RemotePlacesTest, AReaderStaysWithItsVersion) {
  mem_.Put("f", "old content");
  const auto reader = PlaceReader::Open("mem://test/f").value();
  EXPECT_EQ(reader->Read(0, 3).value(), "old");
  mem_.Put("f", "new content");
  EXPECT_EQ(reader->Read(0, 3).status().code(), StatusCode::kDataLoss);
}

TEST_F(RemotePlacesTest, RenamesStayInOneBucket) {
  mem_.Put("f", "x");
  EXPECT_EQ(RenamePlaceFile("mem://test/f", "/nowhere/f").code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(StatPlace("azure://b/x").status().code(),
            StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace holdfast
