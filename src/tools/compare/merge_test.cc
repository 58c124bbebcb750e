#include "holdfast/tools/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "holdfast/tools/diff.h"
#include "holdfast/tools/stats.h"
#include "tools/compare/compare_test_util.h"
#include "tools/compare/store_numbers.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class MergeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/compare_merge_test";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string Put(const std::string& name, const Tree& tree,
                  SaveOptions options = {}) {
    options.sync = false;
    const auto saved = Save(root_ + "/" + name, tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return root_ + "/" + name;
  }

  MergePart Part(const std::string& name, const Tree& tree) {
    auto opened = Open(Put(name, tree));
    EXPECT_TRUE(opened.ok());
    return {*std::move(opened), "", name};
  }

  std::string root_;
};

Array Doubles(const std::vector<double>& values) {
  return Array::FromBytes(DType::kFloat64,
                          {static_cast<int64_t>(values.size())}, values.data());
}

std::vector<double> ValuesOf(const Checkpoint& checkpoint,
                             const std::string& name) {
  const auto array = checkpoint.Read(*checkpoint.Find(name));
  EXPECT_TRUE(array.ok());
  const auto* values = reinterpret_cast<const double*>(array->view().data);
  return {values, values + array->element_count()};
}

TEST_F(MergeTest, WritesTheLeavesOfAll) {
  const std::string a =
      Put("a", Tree::Dict({
                   {"p", Tree::Dict({{"w", Doubles({1, 2})}})},
                   {"rest", Tree::Dict()},
                   {"text", "hello"},
               }));
  const std::string b = Put("b", Tree::Dict({
                                     {"list", Tree::List({Doubles({3}), 7})},
                                     {"rest", Tree::Dict({{"x", 1.5}})},
                                 }));
  ConvertOptions convert;
  convert.sync = false;
  const auto merged = Merge({{a, ""}, {b, ""}}, root_ + "/all", {}, convert);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  EXPECT_EQ(merged->leaf_count, 5u);
  const auto loaded = Open(root_ + "/all");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(ValuesOf(**loaded, "p.w"), (std::vector<double>{1, 2}));
  EXPECT_EQ(ValuesOf(**loaded, "list.0"), (std::vector<double>{3}));
  EXPECT_EQ((*loaded)->ReadText(*(*loaded)->Find("text")).value(), "hello");
  EXPECT_TRUE((*loaded)->Find("rest.x").ok());
}

TEST_F(MergeTest, RefusesCollisionsUnlessToldWhatCounts) {
  const MergePart a = Part("a", Tree::Dict({{"w", Doubles({1})}}));
  const MergePart b = Part("b", Tree::Dict({{"w", Doubles({2})}}));
  const auto refused = MergeCheckpoints({a, b});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("leaf w: a and b both"));
  const auto first = MergeCheckpoints({a, b}, {.prefer = MergePrefer::kFirst});
  const auto last = MergeCheckpoints({a, b}, {.prefer = MergePrefer::kLast});
  EXPECT_EQ(ValuesOf(**first, "w"), (std::vector<double>{1}));
  EXPECT_EQ(ValuesOf(**last, "w"), (std::vector<double>{2}));
  MergePart c = b;
  c.prefix = "x.y";
  const auto both = MergeCheckpoints({a, c});
  EXPECT_EQ(ValuesOf(**both, "x.y.w"), (std::vector<double>{2}));
  const MergePart below =
      Part("below", Tree::Dict({{"w", Tree::Dict({{"z", 1}})}}));
  const auto nested = MergeCheckpoints({a, below});
  ASSERT_FALSE(nested.ok());
  EXPECT_THAT(nested.status().message(), HasSubstr("lies below the leaf w"));
}

// Compares means of every float dtype with those computed element by element in
// long double.
TEST_F(MergeTest, AveragesAsTheSlowWay) {
  std::mt19937_64 random(4);
  const std::vector<double> weights = {0.5, 1.25, 0.25};
  std::vector<std::vector<Tree::Member>> members(3);
  const size_t count = 777;
  std::map<std::string, std::vector<std::string>> bytes;
  for (const DType dtype : EveryDType()) {
    if (DTypeKindOf(dtype) < DTypeKind::kFloat) continue;
    const std::string name(DTypeName(dtype));
    for (auto& each : members) {
      bytes[name].push_back(RandomElements(random, dtype, count));
      each.emplace_back(
          name, Array::FromBytes(dtype, {7, 111}, bytes[name].back().data()));
    }
  }
  std::vector<MergePart> parts;
  for (size_t i = 0; i < 3; ++i) {
    parts.push_back(Part("p" + std::to_string(i), Tree::Dict(members[i])));
  }
  const auto merged =
      MergeCheckpoints(parts, {.average = true, .weights = weights});
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  for (const auto& [name, each] : bytes) {
    SCOPED_TRACE(name);
    const DType dtype = *DTypeFromName(name);
    const DType part = PartDType(dtype);
    const size_t part_bytes = DTypeBytes(part);
    auto got = Array::Allocate(dtype, {7, 111});
    RunOptions run;
    run.memory_bytes = 3000;
    ASSERT_TRUE(
        (*merged)
            ->ReadInto({{*(*merged)->Find(name), {0, 0}, got->mutable_view()}},
                       run)
            .ok());
    for (size_t at = 0; at < each[0].size(); at += part_bytes) {
      double sum = 0;
      for (size_t i = 0; i < 3; ++i) {
        const auto x = static_cast<double>(SlowPart(part, &each[i][at]));
        sum = i == 0 ? weights[0] * x : sum + weights[i] * x;
      }
      const uint64_t want = DoubleToFloatBits(part, sum / 2.0);
      uint64_t bits = 0;
      std::memcpy(&bits, got->view().data + at, part_bytes);
      const bool is_nan = std::isnan(sum);
      if (is_nan && std::isnan(FloatBitsToDouble(part, bits))) continue;
      ASSERT_EQ(bits, want) << at;
    }
  }
}

TEST_F(MergeTest, WantsTheRestEqual) {
  const MergePart a = Part("a", Tree::Dict({{"step", 1}, {"w", 1.5}}));
  const MergePart b = Part("b", Tree::Dict({{"step", 2}, {"w", 2.5}}));
  const auto refused = MergeCheckpoints({a, b}, {.average = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("leaf step: a and b"));
  const auto taken =
      MergeCheckpoints({a, b}, {.average = true, .take_first = true});
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(ValuesOf(**taken, "w"), (std::vector<double>{2}));
  const MergePart more = Part("c", Tree::Dict({{"step", 1}}));
  EXPECT_FALSE(MergeCheckpoints({a, more}, {.average = true}).ok());
  const MergePart other =
      Part("d", Tree::Dict({{"step", 1}, {"w", Doubles({1})}}));
  EXPECT_FALSE(MergeCheckpoints({a, other}, {.average = true}).ok());
  EXPECT_FALSE(
      MergeCheckpoints({a, b},
                       {.average = true, .weights = {1}, .take_first = true})
          .ok());
  EXPECT_FALSE(
      MergeCheckpoints(
          {a, b}, {.average = true, .weights = {1, -1}, .take_first = true})
          .ok());
}

TEST_F(MergeTest, RefusesWhatDoesNotGoWithAnAverage) {
  const MergePart a = Part("a", Tree::Dict({{"w", 1.5}}));
  const MergePart b = Part("b", Tree::Dict({{"v", 2.5}}));
  EXPECT_FALSE(MergeCheckpoints({a, b}, {.take_first = true}).ok());
  EXPECT_FALSE(MergeCheckpoints({a, b}, {.weights = {1, 2}}).ok());
  EXPECT_TRUE(MergeCheckpoints({a, b}).ok());
  const auto preferred = MergeCheckpoints(
      {a, a}, {.prefer = MergePrefer::kFirst, .average = true});
  ASSERT_FALSE(preferred.ok());
  EXPECT_THAT(preferred.status().message(), HasSubstr("average and prefer"));
  MergePart below = a;
  below.prefix = "x";
  const auto apart = MergeCheckpoints({a, below}, {.average = true});
  ASSERT_FALSE(apart.ok());
  EXPECT_THAT(apart.status().message(), HasSubstr("prefix x"));
  EXPECT_TRUE(MergeCheckpoints({a, a}, {.average = true}).ok());
}

TEST_F(MergeTest, StatsAreOfEveryTensorForAnyThreads) {
  std::mt19937_64 random(11);
  const std::string bytes = RandomElements(random, DType::kBfloat16, 60000);
  std::vector<double> ramp(50000);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<double>(i);
  SaveOptions small;
  small.chunk_bytes = 3000;
  const auto opened =
      Open(Put("s",
               Tree::Dict({{"none", Tree::None()},
                           {"ramp", Doubles(ramp)},
                           {"step", 7},
                           {"w", Array::FromBytes(DType::kBfloat16, {300, 200},
                                                  bytes.data())}}),
               small));
  ASSERT_TRUE(opened.ok());
  std::vector<StatsResult> results;
  for (const int threads : {1, 2, 5}) {
    StatsOptions options;
    options.run.threads = threads;
    options.run.memory_bytes = 100000;
    auto stats = ComputeStats(**opened, options);
    ASSERT_TRUE(stats.ok()) << stats.status().ToString();
    results.push_back(*std::move(stats));
  }
  ASSERT_EQ(results[0].leaves.size(), 3u);
  const LeafStats& of_ramp = results[0].leaves[0];
  EXPECT_EQ(of_ramp.max->As<double>(), 49999);
  EXPECT_DOUBLE_EQ(of_ramp.mean, 24999.5);
  EXPECT_DOUBLE_EQ(of_ramp.std, std::sqrt((50000.0 * 50000.0 - 1) / 12));
  EXPECT_EQ(of_ramp.zero_count, 1u);
  EXPECT_EQ(results[0].leaves[1].min->As<int64_t>(), 7);
  EXPECT_TRUE(results[0].leaves[2].has_non_finite());
  for (const StatsResult& other : results) {
    EXPECT_EQ(other.l2_norm, results[0].l2_norm);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(other.leaves[i].mean, results[0].leaves[i].mean);
      EXPECT_EQ(other.leaves[i].std, results[0].leaves[i].std);
      EXPECT_EQ(other.leaves[i].l2_norm, results[0].leaves[i].l2_norm);
    }
  }
}

}  // namespace
}  // namespace holdfast
