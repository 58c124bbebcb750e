#include "tools/history/bisect_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace holdfast {
namespace {

using Kind = SearchResult::Kind;
constexpr StepVerdict kG = StepVerdict::kGood;
constexpr StepVerdict kB = StepVerdict::kBad;
constexpr StepVerdict kS = StepVerdict::kSkip;

struct Searched {
  Result<SearchResult> result;
  std::vector<size_t> probes;
};

Searched SearchIn(const std::vector<StepVerdict>& steps) {
  std::vector<size_t> probes;
  Result<SearchResult> result =
      SearchFirstBad(steps.size(), [&](size_t i) -> Result<StepVerdict> {
        probes.push_back(i);
        return steps.at(i);
      });
  return {std::move(result), std::move(probes)};
}

// Searches by looking at every step, from the oldest to the newest.
SearchResult LinearSearch(const std::vector<StepVerdict>& steps) {
  std::optional<size_t> good, bad;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == kG) good = i;
    if (steps[i] == kB && !bad) bad = i;
  }
  if (!good && !bad) return {Kind::kAllSkipped};
  if (!bad) return {Kind::kNewestIsGood, *good};
  if (!good) return {Kind::kNoGood, 0, *bad};
  return {Kind::kFound, *good, *bad};
}

size_t CeilLog2(size_t n) {
  size_t log = 0;
  while ((size_t{1} << log) < n) ++log;
  return log;
}

TEST(BisectSearchTest, FindsEachBorderOfEachLength) {
  for (size_t count = 2; count <= 130; ++count) {
    for (size_t border = 1; border < count; ++border) {
      std::vector<StepVerdict> steps(count, kG);
      std::fill(steps.begin() + static_cast<ptrdiff_t>(border), steps.end(),
                kB);
      const Searched searched = SearchIn(steps);
      ASSERT_EQ(searched.result->kind, Kind::kFound);
      ASSERT_EQ(searched.result->bad, border) << count;
      ASSERT_EQ(searched.result->good, border - 1) << count;
      ASSERT_LE(searched.probes.size(), CeilLog2(count) + 2) << count;
    }
  }
}

TEST(BisectSearchTest, LooksAtTheEndsFirst) {
  EXPECT_EQ(SearchIn({kG, kG, kG, kB, kB}).probes,
            (std::vector<size_t>{4, 0, 2, 3}));
  EXPECT_EQ(SearchIn({kB, kB, kG}).result->kind, Kind::kNewestIsGood);
  EXPECT_EQ(SearchIn({kB, kB, kG}).probes, (std::vector<size_t>{2}));
  const Searched oldest = SearchIn({kS, kB, kB, kS});
  EXPECT_EQ(oldest.result->kind, Kind::kOldestIsBad);
  EXPECT_EQ(oldest.result->bad, 1u);
  EXPECT_EQ(oldest.probes, (std::vector<size_t>{3, 2, 0, 1}));
  EXPECT_EQ(SearchIn({kS, kS, kB}).result->kind, Kind::kNoGood);
  EXPECT_EQ(SearchIn({kS, kS}).result->kind, Kind::kAllSkipped);
  EXPECT_EQ(SearchIn({}).result->kind, Kind::kAllSkipped);
  EXPECT_EQ(SearchIn({kB}).result->kind, Kind::kOldestIsBad);
}

TEST(BisectSearchTest, WhatIsSkippedBetweenGoodAndBadIsLeft) {
  const Searched searched = SearchIn({kG, kG, kS, kS, kB, kB});
  EXPECT_EQ(searched.result->kind, Kind::kFound);
  EXPECT_EQ(searched.result->good, 1u);
  EXPECT_EQ(searched.result->bad, 4u);
}

TEST(BisectSearchTest, AFailureEndsTheSearch) {
  int probe_count = 0;
  const auto result = SearchFirstBad(9, [&](size_t) -> Result<StepVerdict> {
    ++probe_count;
    return UnavailableError("no network");
  });
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(probe_count, 1);
}

TEST(BisectSearchTest, AgreesWithALinearSearchWhateverIsSkipped) {
  std::mt19937 random(20261126);
  for (int round = 0; round < 20'000; ++round) {
    const size_t count = 1 + random() % 60;
    const size_t border = random() % (count + 1);
    const unsigned skipped_percent = random() % 101;
    std::vector<StepVerdict> steps;
    size_t skip_count = 0;
    for (size_t i = 0; i < count; ++i) {
      const bool is_skipped = random() % 100 < skipped_percent;
      steps.push_back(is_skipped ? kS : i < border ? kG : kB);
      if (is_skipped) ++skip_count;
    }
    const SearchResult want = LinearSearch(steps);
    const Searched searched = SearchIn(steps);
    const SearchResult& got = *searched.result;
    // Without a good step, the result depends on whether the oldest step is
    // skipped.
    if (want.kind == Kind::kNoGood) {
      ASSERT_TRUE(got.kind == Kind::kNoGood || got.kind == Kind::kOldestIsBad);
    } else {
      ASSERT_EQ(got.kind, want.kind);
    }
    if (want.kind == Kind::kFound) {
      ASSERT_EQ(got.good, want.good);
      ASSERT_EQ(got.bad, want.bad);
    }
    ASSERT_LE(searched.probes.size(), CeilLog2(count) + 2 + skip_count);
    std::vector<size_t> once = searched.probes;
    std::sort(once.begin(), once.end());
    ASSERT_TRUE(std::adjacent_find(once.begin(), once.end()) == once.end());
  }
}

}  // namespace
}  // namespace holdfast
