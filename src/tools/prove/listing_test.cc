#include "tools/prove/listing.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "holdfast/holdfast.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

void SaveAt(const std::string& path, int value) {
  SaveOptions options;
  options.sync = false;
  ASSERT_TRUE(Save(path, Tree::Dict({{"step", value}}), options).ok());
}

std::string NamesOf(const Listing& listing) {
  std::string names;
  for (const auto& [name, content] : listing) {
    names += name + (content.problem.empty() ? " " : "! ");
  }
  return names;
}

TEST(ListCheckpoints, FindsStepsAndWhatLiesBesideThem) {
  const ScratchDirectory root;
  SaveAt(root / "0", 0);
  SaveAt(root / "1", 1);
  SaveAt(root / "best", 1);
  WriteTestFile(root / "notes.txt", "none");
  const Places places = FindPlaces(root.path());
  EXPECT_EQ(places.roots, (std::set<std::string>{""}));
  EXPECT_EQ(places.entries, (std::set<std::string>{"best"}));
  const Listing listing = ListCheckpoints(root.path(), places);
  EXPECT_EQ(NamesOf(listing), "0 1 best ");
  EXPECT_EQ(listing.at("1").digest, listing.at("best").digest);
  EXPECT_NE(listing.at("1").digest, listing.at("0").digest);
}

TEST(ListCheckpoints, TellsDamageFromWhatIsNotCommitted) {
  const ScratchDirectory root;
  for (const int step : {0, 1, 2}) SaveAt(root / std::to_string(step), step);
  const Places places = FindPlaces(root.path());
  WriteTestFile(root / "0/_METADATA", "");
  fs::rename(root / "1", root / "1.orbax-checkpoint-tmp");
  const Listing listing = ListCheckpoints(root.path(), places);
  EXPECT_EQ(NamesOf(listing), "0! 2 ");
  EXPECT_EQ(listing.at("0").digest, "");
  EXPECT_EQ(listing.at("0").problem.find(root.path()), std::string::npos);
}

TEST(ListCheckpoints, ForgetsNoPlaceWhereNothingIsLeft) {
  const ScratchDirectory root;
  SaveAt(root / "run/0", 0);
  SaveAt(root / "run/1", 1);
  const Places places = FindPlaces(root.path());
  EXPECT_EQ(places.roots, (std::set<std::string>{"run/"}));
  EXPECT_EQ(NamesOf(ListCheckpoints(root.path(), places)), "run/0 run/1 ");
  fs::remove_all(root / "run");
  EXPECT_TRUE(ListCheckpoints(root.path(), places).empty());
}

}  // namespace
}  // namespace holdfast
