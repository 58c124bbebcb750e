#include "holdfast/tools/stats_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/compare/compare_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class StatsCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/stats_cache_test";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    file_ = root_ + "/cache";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // Saves a step with a tensor of each dtype.
  void SaveStep(const std::string& name, uint64_t seed) {
    std::mt19937_64 random(seed);
    Tree tree = Tree::Dict();
    for (const DType dtype : EveryDType()) {
      if (DTypeBits(dtype) < 8) continue;  // zarr does not support these
      const std::string elements = RandomElements(random, dtype, 50);
      tree.Add(std::string(DTypeName(dtype)),
               Tree(Array::FromBytes(dtype, {50}, elements.data())));
    }
    SaveOptions options;
    options.sync = false;
    options.overwrite = true;
    const auto saved = Save(root_ + "/" + name, tree, options);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  }

  // Measures the step, and records how many bytes were read.
  StatsResult Measure(const std::string& name, StatsCache& cache) {
    const auto checkpoint = Open(root_ + "/" + name);
    EXPECT_TRUE(checkpoint.ok());
    StatsOptions options;
    options.histograms = true;
    options.cache = &cache;
    options.identity = StatsCache::IdentityOf(**checkpoint);
    auto stats = ComputeStats(**checkpoint, options);
    EXPECT_TRUE(stats.ok());
    return *std::move(stats);
  }

  std::string Text() const {
    std::ostringstream text;
    text << std::ifstream(file_, std::ios::binary).rdbuf();
    return text.str();
  }
  void PutText(const std::string& text) const {
    std::ofstream(file_, std::ios::binary) << text;
  }

  std::string root_, file_;
};

void ExpectSameStats(const StatsResult& a, const StatsResult& b) {
  ASSERT_EQ(a.leaves.size(), b.leaves.size());
  const auto same = [](double x, double y) {
    return x == y || (std::isnan(x) && std::isnan(y));
  };
  for (size_t i = 0; i < a.leaves.size(); ++i) {
    const LeafStats& x = a.leaves[i];
    const LeafStats& y = b.leaves[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.zero_count, y.zero_count) << x.name;
    EXPECT_EQ(x.nan_count, y.nan_count) << x.name;
    EXPECT_EQ(x.infinity_count(), y.infinity_count()) << x.name;
    EXPECT_EQ(x.finite_count, y.finite_count) << x.name;
    EXPECT_EQ(x.planes_bytes, y.planes_bytes) << x.name;
    EXPECT_TRUE(x.min == y.min && x.max == y.max && x.absmax == y.absmax)
        << x.name;
    EXPECT_TRUE(same(x.mean, y.mean) && same(x.std, y.std)) << x.name;
    EXPECT_EQ(x.mean_imaginary, y.mean_imaginary) << x.name;
    EXPECT_EQ(x.l2_norm, y.l2_norm) << x.name;
    EXPECT_EQ(x.histogram->counts, y.histogram->counts) << x.name;
    EXPECT_EQ(x.histogram->sample_count, y.histogram->sample_count);
  }
  EXPECT_EQ(a.zero_count, b.zero_count);
  EXPECT_NEAR(a.l2_norm, b.l2_norm, 1e-12 * a.l2_norm);
}

TEST_F(StatsCacheTest, ReadsNothingAgain) {
  SaveStep("1", 1);
  StatsCache first(file_);
  EXPECT_EQ(first.warning(), "");
  const StatsResult measured = Measure("1", first);
  EXPECT_GT(measured.stats.decoded_bytes, 0u);
  ASSERT_TRUE(first.Write().ok());
  StatsCache second(file_);
  const StatsResult found = Measure("1", second);
  EXPECT_EQ(found.stats.decoded_bytes, 0u);
  ExpectSameStats(measured, found);
}

TEST_F(StatsCacheTest, NoticesAnotherCheckpoint) {
  SaveStep("1", 1);
  SaveStep("2", 2);
  StatsCache cache(file_);
  Measure("1", cache);
  EXPECT_GT(Measure("2", cache).stats.decoded_bytes, 0u);
  EXPECT_EQ(Measure("1", cache).stats.decoded_bytes, 0u);
  SaveStep("1", 3);
  StatsCache none(root_ + "/none");
  const StatsResult now = Measure("1", cache);
  EXPECT_GT(now.stats.decoded_bytes, 0u);
  ExpectSameStats(now, Measure("1", none));
}

TEST_F(StatsCacheTest, KeepsDrift) {
  SaveStep("1", 1);
  SaveStep("2", 2);
  const auto before = Open(root_ + "/1"), now = Open(root_ + "/2");
  DriftOptions options;
  options.identity_before = StatsCache::IdentityOf(**before);
  options.identity_now = StatsCache::IdentityOf(**now);
  StatsCache cache(file_);
  options.cache = &cache;
  const auto measured = ComputeDrift(**before, **now, options);
  ASSERT_TRUE(cache.Write().ok());
  StatsCache again(file_);
  options.cache = &again;
  const auto found = ComputeDrift(**before, **now, options);
  ASSERT_TRUE(measured.ok() && found.ok());
  EXPECT_EQ(found->stats.decoded_bytes, 0u);
  for (size_t i = 0; i < found->leaves.size(); ++i) {
    EXPECT_EQ(found->leaves[i].moved, measured->leaves[i].moved);
    EXPECT_EQ(found->leaves[i].norm, measured->leaves[i].norm);
  }
}

TEST_F(StatsCacheTest, DamagedFilesAreLeftOutAndReplaced) {
  SaveStep("1", 1);
  {
    StatsCache cache(file_);
    Measure("1", cache);
    ASSERT_TRUE(cache.Write().ok());
  }
  const std::string good = Text();
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    if (i % 2 == 0) {
      bad[20 + random() % (bad.size() - 20)] ^= 1 << random() % 8;
    } else {
      bad.resize(18 + random() % (bad.size() - 18));
    }
    PutText(bad);
    EXPECT_NE(StatsCache(file_).warning(), "");
  }
  StatsCache cache(file_);
  EXPECT_GT(Measure("1", cache).stats.decoded_bytes, 0u);
  ASSERT_TRUE(cache.Write().ok());
  EXPECT_EQ(StatsCache(file_).warning(), "") << Text().substr(0, 500);
}

TEST_F(StatsCacheTest, NeverReplacesWhatIsNoCache) {
  SaveStep("1", 1);
  PutText("somebody's weights");
  StatsCache cache(file_);
  EXPECT_THAT(cache.warning(), HasSubstr("not a cache of statistics"));
  Measure("1", cache);
  EXPECT_EQ(cache.Write().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Text(), "somebody's weights");
}

// Numbers may be invalid even if the file's checksum is right.
TEST_F(StatsCacheTest, NumbersThatDoNotFitAreNotTaken) {
  LeafStats leaf;
  leaf.name = "w";
  leaf.dtype = DType::kFloat32;
  leaf.element_count = 10;
  leaf.finite_count = 9;
  leaf.nan_count = 1;
  StatsCache cache(file_);
  cache.Put("id", leaf);
  EXPECT_TRUE(cache.Find("id", false, leaf));
  EXPECT_FALSE(cache.Find("id", true, leaf));
  EXPECT_FALSE(cache.Find("another", false, leaf));
  leaf.element_count = 11;
  EXPECT_FALSE(cache.Find("id", false, leaf));
  leaf.element_count = 10;
  leaf.zero_count = 11;
  cache.Put("id", leaf);
  EXPECT_FALSE(cache.Find("id", false, leaf));
}

}  // namespace
}  // namespace holdfast
