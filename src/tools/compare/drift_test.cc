#include "holdfast/tools/drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "tools/compare/compare_test_util.h"

namespace holdfast {
namespace {

class DriftTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/compare_drift_test";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::unique_ptr<Checkpoint> SaveAndOpen(const Tree& tree) {
    const std::string path = root_ + "/" + std::to_string(count_++);
    SaveOptions options;
    options.sync = false;
    EXPECT_TRUE(Save(path, tree, options).ok());
    return *Open(path);
  }

  std::string root_;
  int count_ = 0;
};

template <typename T>
Array ArrayOf(DType dtype, const std::vector<T>& values) {
  return Array::FromBytes(dtype, {static_cast<int64_t>(values.size())},
                          reinterpret_cast<const char*>(values.data()));
}

Array DriftFloats(const std::vector<float>& values) {
  return ArrayOf(DType::kFloat32, values);
}

TEST_F(DriftTest, IsRelativeToWhatWasBefore) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto before =
      SaveAndOpen(Tree::Dict({{"gone", DriftFloats({1})},
                              {"moved", DriftFloats({3, 4, nan, 0})},
                              {"same", DriftFloats({1, 2})},
                              {"shape", DriftFloats({1, 2})},
                              {"text", "a"},
                              {"zeros", DriftFloats({0, 0})}}));
  const auto now =
      SaveAndOpen(Tree::Dict({{"moved", DriftFloats({3, 4, 7, 0.5})},
                              {"new", DriftFloats({1})},
                              {"same", DriftFloats({1, 2})},
                              {"shape", DriftFloats({1, 2, 3})},
                              {"text", "b"},
                              {"zeros", DriftFloats({0, 1})}}));
  const auto drift = ComputeDrift(*before, *now);
  ASSERT_TRUE(drift.ok()) << drift.status().ToString();
  ASSERT_EQ(drift->leaves.size(), 3u);
  const LeafDrift& moved = drift->leaves[0];
  EXPECT_EQ(now->leaves()[moved.now].name, "moved");
  EXPECT_EQ(before->leaves()[moved.before].name, "moved");
  EXPECT_EQ(moved.moved, 0.5);
  EXPECT_EQ(moved.norm, 5);
  EXPECT_EQ(moved.relative(), 0.1);
  EXPECT_EQ(drift->leaves[1].relative(), 0);
  EXPECT_TRUE(std::isinf(drift->leaves[2].relative()));
}

TEST_F(DriftTest, ComparesNumbersOfAnyDTypes) {
  const int64_t large = int64_t{1} << 62;
  const auto before = SaveAndOpen(
      Tree::Dict({{"i", ArrayOf<int64_t>(DType::kInt64, {large, 2})},
                  {"x", ArrayOf<double>(DType::kFloat64, {1, 2})}}));
  const auto now = SaveAndOpen(
      Tree::Dict({{"i", ArrayOf<int64_t>(DType::kInt64, {large + 3, 2})},
                  {"x", DriftFloats({1, 2.5})}}));
  const auto drift = ComputeDrift(*before, *now);
  ASSERT_TRUE(drift.ok()) << drift.status().ToString();
  ASSERT_EQ(drift->leaves.size(), 2u);
  EXPECT_EQ(drift->leaves[0].moved, 3);  // float64 would round it away
  EXPECT_EQ(drift->leaves[1].moved, 0.5);
}

TEST_F(DriftTest, DoesNotDependOnThreadsAndReadsWhatIsSelected) {
  std::mt19937_64 random(7);
  const auto make = [&] {
    std::vector<double> values(3'000'000);
    for (double& value : values) {
      value = std::ldexp(static_cast<double>(random() >> 11), -53);
    }
    return Tree::Dict(
        {{"b", DriftFloats({1})}, {"x", ArrayOf(DType::kFloat64, values)}});
  };
  const auto before = SaveAndOpen(make()), now = SaveAndOpen(make());
  DriftOptions options;
  options.select = [](const LeafInfo& leaf) { return leaf.name == "x"; };
  options.run.threads = 1;
  const auto one = ComputeDrift(*before, *now, options);
  options.run.threads = 4;
  const auto four = ComputeDrift(*before, *now, options);
  ASSERT_TRUE(one.ok() && four.ok());
  ASSERT_EQ(one->leaves.size(), 1u);
  EXPECT_EQ(one->leaves[0].moved, four->leaves[0].moved);
  // For two uniform numbers: E[(a-b)^2] = 1/6, E[a^2] = 1/3.
  EXPECT_NEAR(one->leaves[0].relative(), std::sqrt(0.5), 1e-3);
  const std::atomic<bool> cancel{true};
  options.run.cancel = &cancel;
  EXPECT_EQ(ComputeDrift(*before, *now, options).status().code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace holdfast
