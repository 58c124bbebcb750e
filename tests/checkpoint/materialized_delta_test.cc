// Materializing a delta makes it an ordinary step; deltas based on it are still
// readable.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/test_trees.h"
#include "holdfast/checkpoint.h"
#include "holdfast/delta.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/view.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class MaterializedDelta : public ::testing::Test {
 protected:
  MaterializedDelta() {
    for (uint32_t step = 0; step < 4; ++step) {
      Array weights = RandomArray(DType::kBfloat16, {100, 50}, 1);
      weights.mutable_view().data[step] ^= 1;
      trees_.push_back(Tree::Dict(
          {{"kept", Tree(RandomArray(DType::kFloat32, {30}, 2))},
           {"step", Tree(static_cast<int64_t>(step))},
           {"w", Tree(weights)}}));
      if (step == 0) {
        EXPECT_TRUE(Save(Path(0), trees_[0]).ok());
      } else {
        EXPECT_TRUE(SaveDelta(Path(step), trees_[step], Path(step - 1)).ok());
      }
    }
  }

  std::string Path(uint32_t step) const {
    return directory_ / std::to_string(step);
  }

  void ExpectLoads(uint32_t step) const {
    const auto loaded = Load(Path(step));
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(loaded->tree == trees_[step]) << step;
  }

  ScratchDirectory directory_;
  std::vector<Tree> trees_;
};

TEST_F(MaterializedDelta, TakesThePlaceOfTheDelta) {
  const auto made = Materialize(Path(2));
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const auto opened = Open(Path(2));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->info().format, "orbax");
  EXPECT_TRUE((*opened)->info().bases.empty());
  fs::remove_all(Path(0));
  fs::remove_all(Path(1));
  ExpectLoads(2);
  ExpectLoads(3);
  EXPECT_EQ(Materialize(Path(2)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(MaterializedDelta, AConversionOfOtherLeavesIsNoBase) {
  ConvertOptions part;
  part.names = {"w"};
  ASSERT_TRUE(Convert(Path(2), directory_ / "part", part).ok());
  fs::remove_all(Path(2));
  fs::rename(directory_ / "part", Path(2));
  EXPECT_EQ(Load(Path(3)).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(MaterializedDelta, ElsewhereItStandsForNothing) {
  ASSERT_TRUE(Materialize(Path(3), directory_ / "own").ok());
  for (uint32_t step = 0; step < 4; ++step) fs::remove_all(Path(step));
  const auto loaded = Load(directory_ / "own");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == trees_[3]);
}

}  // namespace
}  // namespace holdfast
