#include <gtest/gtest.h>

#include "holdfast/options.h"

namespace holdfast {
namespace {

TEST(Stats, AddsEverythingButThePeak) {
  Stats sum{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const Stats part{100, 200, 300, 400, 500, 600, 700, 800, 8, 1000, 1100, 1200};
  sum.Add(part);
  EXPECT_EQ(sum.plan_seconds, 101);
  EXPECT_EQ(sum.transfer_seconds, 202);
  EXPECT_EQ(sum.sync_seconds, 303);
  EXPECT_EQ(sum.commit_seconds, 404);
  EXPECT_EQ(sum.total_seconds, 505);
  EXPECT_EQ(sum.decoded_bytes, 606u);
  EXPECT_EQ(sum.stored_bytes, 707u);
  EXPECT_EQ(sum.chunk_count, 808u);
  EXPECT_EQ(sum.memory_bytes_peak, 9u);
  EXPECT_EQ(sum.mapped_bytes, 1010u);
  EXPECT_EQ(sum.fingerprint_count, 1111u);
  EXPECT_EQ(sum.device_decoded_bytes, 1212u);
  sum.Add({.memory_bytes_peak = 10});
  EXPECT_EQ(sum.memory_bytes_peak, 10u);
}

}  // namespace
}  // namespace holdfast
