#include "holdfast/tools/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tools/compare/compare_test_util.h"
#include "tools/compare/renamed.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;

class DiffTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/compare_diff_test";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::unique_ptr<Checkpoint> SaveAndOpen(const Tree& tree,
                                          SaveOptions options = {}) {
    const std::string path = root_ + "/" + std::to_string(count_++);
    options.sync = false;
    const auto saved = Save(path, tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    auto opened = Open(path);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return *std::move(opened);
  }

  std::string root_;
  int count_ = 0;
};

Array Floats(const Shape& shape, float first) {
  std::vector<float> values(static_cast<size_t>(ElementCount(shape)));
  for (float& value : values) value = first++;
  return Array::FromBytes(DType::kFloat32, shape, values.data());
}

const LeafDiff& LeafNamed(const DiffResult& result, std::string_view name) {
  for (const LeafDiff& leaf : result.leaves) {
    if (leaf.name == name) return leaf;
  }
  ADD_FAILURE() << name;
  return result.leaves[0];
}

TEST_F(DiffTest, SaysStructureKindsShapesDTypesThenValues) {
  const auto a = SaveAndOpen(Tree::Dict({
      {"dtype", Floats({2}, 0)},
      {"gone", Floats({5}, 7)},
      {"kind", Floats({2}, 0)},
      {"none", Tree::None()},
      {"same", Floats({2, 3}, 1)},
      {"shape", Floats({6}, 1)},
      {"text", "alpha"},
      {"values", Floats({3, 4}, 1)},
  }));
  Array changed = Floats({3, 4}, 1);
  reinterpret_cast<float*>(changed.mutable_view().data)[6] = 14;
  const double doubles[] = {0, 1.5};
  const auto b = SaveAndOpen(Tree::Dict({
      {"dtype", Array::FromBytes(DType::kFloat64, {2}, doubles)},
      {"kind", "text"},
      {"new", Floats({7}, 1)},
      {"none", Tree::None()},
      {"same", Floats({2, 3}, 1)},
      {"shape", Floats({2, 3}, 1)},
      {"text", "alpine"},
      {"values", changed},
  }));
  const auto diff = Diff(*a, *b);
  ASSERT_TRUE(diff.ok()) << diff.status().ToString();
  EXPECT_FALSE(diff->is_same());
  EXPECT_EQ(diff->same_count, 2u);
  EXPECT_EQ(LeafNamed(*diff, "dtype").verdict, DiffVerdict::kDType);
  EXPECT_EQ(LeafNamed(*diff, "dtype").max_abs_error, 0.5);
  EXPECT_EQ(LeafNamed(*diff, "gone").verdict, DiffVerdict::kOnlyInA);
  EXPECT_EQ(LeafNamed(*diff, "new").verdict, DiffVerdict::kOnlyInB);
  EXPECT_EQ(LeafNamed(*diff, "kind").verdict, DiffVerdict::kKind);
  EXPECT_EQ(LeafNamed(*diff, "shape").verdict, DiffVerdict::kShape);
  EXPECT_EQ(LeafNamed(*diff, "text").first_byte, 3u);
  const LeafDiff& values = LeafNamed(*diff, "values");
  EXPECT_EQ(values.verdict, DiffVerdict::kValues);
  EXPECT_EQ(values.different_count, 1u);
  EXPECT_EQ(values.max_abs_error, 7);
  EXPECT_EQ(values.max_rel_error, 0.5);
  EXPECT_EQ(values.first_index, (Shape{1, 2}));
  EXPECT_EQ(values.first_a.As<float>(), 7);
  EXPECT_EQ(values.first_b.As<float>(), 14);
  std::vector<std::string> order;
  for (const size_t i : WorstFirst(*diff)) {
    order.push_back(diff->leaves[i].name);
  }
  EXPECT_THAT(order, ElementsAre("gone", "new", "kind", "shape", "dtype",
                                 "values", "text"));
}

TEST_F(DiffTest, IsTheSameWhateverTheLayout) {
  std::mt19937_64 random(3);
  std::vector<Tree::Member> members;
  for (const DType dtype : EveryDType()) {
    if (dtype == DType::kUint2 || dtype == DType::kUint4) continue;
    for (const Shape& shape : {Shape{}, Shape{1, 3}, Shape{37, 11}}) {
      const std::string bytes = RandomElements(
          random, dtype, static_cast<size_t>(ElementCount(shape)));
      members.emplace_back(std::string(DTypeName(dtype)) +
                               std::to_string(shape.size()) +
                               std::to_string(ElementCount(shape)),
                           Array::FromBytes(dtype, shape, bytes.data()));
    }
  }
  const Tree tree = Tree::Dict(members);
  const auto a = SaveAndOpen(tree);
  SaveOptions other;
  other.format = Format::kOrbaxV1;
  other.zarr_format = 3;
  other.use_ocdbt = false;
  other.compression = Compression::kFast;
  other.chunk_bytes = 100;
  const auto b = SaveAndOpen(tree, other);
  for (const uint64_t ram : {0, 1, 4096, 1 << 20}) {
    for (const int threads : {1, 4}) {
      DiffOptions options;
      options.run.memory_bytes = ram;
      options.run.threads = threads;
      options.equal_bits = true;
      const auto diff = Diff(*a, *b, options);
      ASSERT_TRUE(diff.ok()) << diff.status().ToString();
      EXPECT_TRUE(diff->is_same());
      EXPECT_EQ(diff->same_count, members.size());
    }
  }
}

TEST_F(DiffTest, FindsTheFirstOfManyInAnyChunks) {
  Array changed = Floats({100, 40}, 0);
  for (const int i : {3999, 1234, 2345}) {
    reinterpret_cast<float*>(changed.mutable_view().data)[i] = -5;
  }
  SaveOptions small;
  small.chunk_bytes = 500;
  const auto a = SaveAndOpen(Tree::Dict({{"w", Floats({100, 40}, 0)}}));
  const auto b = SaveAndOpen(Tree::Dict({{"w", changed}}), small);
  DiffOptions options;
  options.run.memory_bytes = 4000;
  const auto diff = Diff(*a, *b, options);
  ASSERT_TRUE(diff.ok());
  EXPECT_EQ(diff->leaves[0].different_count, 3u);
  EXPECT_EQ(diff->leaves[0].first_index, (Shape{30, 34}));
  EXPECT_EQ(diff->leaves[0].max_abs_error, 4004);
}

TEST_F(DiffTest, JudgesByToleranceBitsAndNaN) {
  const float x[] = {1, 0.0f, NAN, 100};
  const float y[] = {1.0625f, -0.0f, NAN, 101};
  const auto a = SaveAndOpen(
      Tree::Dict({{"w", Array::FromBytes(DType::kFloat32, {4}, x)}}));
  const auto b = SaveAndOpen(
      Tree::Dict({{"w", Array::FromBytes(DType::kFloat32, {4}, y)}}));
  const auto verdict = [&](DiffOptions options) {
    const auto diff = Diff(*a, *b, options);
    EXPECT_TRUE(diff.ok());
    return diff->leaves[0].verdict;
  };
  EXPECT_EQ(verdict({}), DiffVerdict::kValues);
  EXPECT_EQ(verdict({.atol = 0.9}), DiffVerdict::kValues);
  EXPECT_EQ(verdict({.atol = 1}), DiffVerdict::kSame);
  EXPECT_EQ(verdict({.rtol = 0.0625}), DiffVerdict::kSame);
  EXPECT_EQ(verdict({.atol = 1, .equal_nan = false}), DiffVerdict::kValues);
  EXPECT_EQ(verdict({.atol = 1, .equal_bits = true}), DiffVerdict::kBits);
  EXPECT_FALSE(Diff(*a, *b, {.atol = -1}).ok());
  EXPECT_FALSE(Diff(*a, *b, {.rtol = NAN}).ok());
}

TEST_F(DiffTest, ComparesRenamedTreesAndGuessesRenames) {
  const auto a = SaveAndOpen(Tree::Dict({
      {"old", Tree::Dict({{"b", Floats({4}, 0)}, {"w", Floats({4}, 9)}})},
  }));
  const auto b = SaveAndOpen(Tree::Dict({
      {"new", Tree::Dict({{"b", Floats({4}, 0)}, {"w", Floats({4}, 9)}})},
  }));
  const auto guessed = Diff(*a, *b);
  ASSERT_TRUE(guessed.ok());
  EXPECT_EQ(guessed->only_in_a_count, 2u);
  const LeafDiff& w = LeafNamed(*guessed, "old.w");
  ASSERT_TRUE(w.renamed);
  EXPECT_EQ(b->leaves()[*w.renamed].name, "new.w");
  EXPECT_EQ(a->leaves()[*LeafNamed(*guessed, "new.b").renamed].name, "old.b");
  DiffOptions options;
  options.map.renames = {{"old/(.*)", "new/\\1"}};
  const auto mapped = Diff(*a, *b, options);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  EXPECT_TRUE(mapped->is_same());
  EXPECT_EQ(mapped->leaves[0].name_b, "new.b");
  options.map.drop = {"old.b"};
  const auto dropped = Diff(*a, *b, options);
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(dropped->same_count, 1u);
  EXPECT_EQ(dropped->only_in_b_count, 1u);
}

TEST(PairRenamed, PrefersNamesThatEndAlike) {
  const std::vector<RenameCandidate> a = {{0, "x.bias", "0"}, {1, "x.w", "0"}};
  const std::vector<RenameCandidate> b = {
      {0, "y.w", "0"}, {1, "y.bias", "0"}, {2, "y.scale", "1"}};
  EXPECT_THAT(PairRenamed(a, b),
              ::testing::UnorderedElementsAre(std::pair<size_t, size_t>(0, 1),
                                              std::pair<size_t, size_t>(1, 0)));
}

TEST_F(DiffTest, NamesDamageAndGoesOn) {
  SaveOptions plain;
  plain.use_ocdbt = false;
  plain.compression = Compression::kNone;
  const Tree tree =
      Tree::Dict({{"a", Floats({400}, 0)}, {"b", Floats({400}, 1)}});
  const auto a = SaveAndOpen(tree, plain);
  const auto b = SaveAndOpen(tree, plain);
  std::filesystem::resize_file(root_ + "/1/a/0", 100);
  const auto diff = Diff(*a, *b);
  ASSERT_TRUE(diff.ok()) << diff.status().ToString();
  EXPECT_EQ(LeafNamed(*diff, "a").verdict, DiffVerdict::kUnreadable);
  EXPECT_FALSE(LeafNamed(*diff, "a").problem.ok());
  EXPECT_EQ(LeafNamed(*diff, "b").verdict, DiffVerdict::kSame);
}

TEST_F(DiffTest, StopsWhenCancelledAndTellsProgress) {
  const Tree tree = Tree::Dict({{"a", Floats({1000}, 0)}});
  const auto a = SaveAndOpen(tree);
  std::atomic<bool> cancel{true};
  DiffOptions options;
  options.run.cancel = &cancel;
  EXPECT_EQ(Diff(*a, *a, options).status().code(), StatusCode::kCancelled);
  cancel = false;
  Progress last;
  options.run.progress = [&](const Progress& progress) { last = progress; };
  ASSERT_TRUE(Diff(*a, *a, options).ok());
  EXPECT_EQ(last.done_bytes, 8000u);
  EXPECT_EQ(last.total_bytes, 8000u);
}

TEST_F(DiffTest, HoldsNoMoreThanItMay) {
  const Tree tree = Tree::Dict({{"w", Floats({1 << 20}, 0)}});
  const auto a = SaveAndOpen(tree);
  SaveOptions one_chunk;
  one_chunk.chunk_bytes = 0;
  const auto b = SaveAndOpen(tree, one_chunk);
  DiffOptions options;
  options.run.memory_bytes = 1 << 20;
  const auto diff = Diff(*a, *b, options);
  ASSERT_TRUE(diff.ok());
  EXPECT_TRUE(diff->is_same());
  EXPECT_GT(diff->stats.memory_bytes_peak, 0u);
  EXPECT_LE(diff->stats.memory_bytes_peak, 1u << 20);
}

}  // namespace
}  // namespace holdfast
