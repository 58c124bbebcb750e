#include "engine/commit/layout.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class LayoutTest : public testing::Test {
 protected:
  void Touch(const std::string& name, const std::string& text = "{}") {
    const fs::path path = fs::path(root_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Result<FoundCheckpoint> Find(const std::string& name,
                               OpenOptions options = {}) {
    return FindCheckpoint(Place(name.empty() ? root_ : root_ + "/" + name),
                          options);
  }

  ScratchDirectory scratch_;
  const std::string root_ = scratch_.path();
};

TEST_F(LayoutTest, StepNames) {
  EXPECT_EQ(StepOfName("7"), 7);
  EXPECT_EQ(StepOfName("00000012"), 12);
  EXPECT_EQ(StepOfName("my_run_30"), 30);
  EXPECT_EQ(StepOfName("metadata"), std::nullopt);
  EXPECT_EQ(StepOfName("7x"), std::nullopt);
  EXPECT_EQ(StepOfName("-7"), std::nullopt);
  EXPECT_EQ(StepOfName("step_"), std::nullopt);
  EXPECT_EQ(StepOfName("99999999999999999999"), std::nullopt);
}

TEST_F(LayoutTest, ManagerRootGivesTheNewestStepThatIsACheckpoint) {
  Touch("1/state/_METADATA");
  Touch("1/_CHECKPOINT_METADATA");
  Touch("2/state/_METADATA");
  fs::create_directories(root_ + "/3");  // empty: no checkpoint
  Touch("4.orbax-checkpoint-tmp/state/_METADATA");
  Touch("metadata/_ROOT_METADATA");
  const auto newest = Find("");
  ASSERT_TRUE(newest.ok()) << newest.status().ToString();
  EXPECT_EQ(newest->info.step, 2);
  EXPECT_EQ(newest->items[0].name, "state");
  OpenOptions first;
  first.step = 1;
  EXPECT_EQ(Find("", first)->info.step, 1);
  OpenOptions absent;
  absent.step = 9;
  EXPECT_EQ(Find("", absent).status().code(), StatusCode::kNotFound);
}

TEST_F(LayoutTest, ItemsOfAComposite) {
  Touch("c/_CHECKPOINT_METADATA");
  Touch("c/orbax.checkpoint", "");
  Touch("c/state/_METADATA");
  Touch("c/info/data.json");
  Touch("c/key/jax_random_key/_METADATA");
  Touch("c/unfinished.orbax-checkpoint-tmp/_METADATA");
  const auto place = Find("c");
  ASSERT_TRUE(place.ok()) << place.status().ToString();
  EXPECT_EQ(place->info.format, "orbax-v1");
  std::vector<std::string> names;
  for (const ItemPlace& item : place->items) names.push_back(item.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"info", "key/jax_random_key", "state"}));
  OpenOptions one;
  one.item = "state";
  EXPECT_EQ(Find("c", one)->items.size(), 1u);
  one.item = "absent";
  EXPECT_EQ(Find("c", one).status().code(), StatusCode::kNotFound);
}

TEST_F(LayoutTest, BareArraysAndTheirFiles) {
  Touch("db/manifest.ocdbt");
  EXPECT_EQ(Find("db")->info.format, "ocdbt");
  EXPECT_EQ(Find("db/manifest.ocdbt")->info.format, "ocdbt");
  Touch("v3/w/zarr.json");
  EXPECT_EQ(Find("v3")->info.format, "zarr3");
  Touch("v2/.zarray");
  EXPECT_EQ(Find("v2/.zarray")->info.format, "zarr");
}

TEST_F(LayoutTest, SaysWhyItIsNoCheckpoint) {
  EXPECT_EQ(Find("absent").status().message(),
            "Checkpoint at " + root_ + "/absent not found.");
  Touch("notes/readme.txt");
  const Status none = Find("notes").status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_NE(none.message().find("looked for _METADATA"), std::string::npos);
  Touch("a.orbax-checkpoint-tmp/_METADATA");
  const Status temporary = Find("a.orbax-checkpoint-tmp").status();
  EXPECT_EQ(temporary.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(temporary.message(), "Found incomplete checkpoint at " + root_ +
                                     "/a.orbax-checkpoint-tmp.");
  Touch("lost/manifest.ocdbt");
  Touch("lost/_CHECKPOINT_METADATA");
  const Status lost = Find("lost").status();
  EXPECT_EQ(lost.code(), StatusCode::kNotFound);
  EXPECT_NE(lost.message().find("Metadata file (named _METADATA)"),
            std::string::npos);
  EXPECT_EQ(Find("notes/readme.txt").status().code(), StatusCode::kNotFound);
}

TEST_F(LayoutTest, AbsolutePathsAreNormal) {
  EXPECT_EQ(AbsolutePath("/a/b/../c/./"), "/a/c");
  EXPECT_EQ(AbsolutePath("/"), "/");
  EXPECT_TRUE(AbsolutePath("x").starts_with("/"));
}

}  // namespace
}  // namespace holdfast
