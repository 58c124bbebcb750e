#include "stores/storage/writeback_window.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(WritebackWindow, GivesTheRangeAroundAFullWindow) {
  WritebackWindow window(100);
  EXPECT_FALSE(window.Note(200, 40));
  EXPECT_FALSE(window.Note(120, 40));
  const auto range = window.Note(180, 20);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->offset, 120u);
  EXPECT_EQ(range->byte_count, 120u);
  EXPECT_FALSE(window.Note(500, 99));  // starts afresh
  const auto next = window.Note(599, 1);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->offset, 500u);
  EXPECT_EQ(next->byte_count, 100u);
}

TEST(WritebackWindow, OneLargeWriteFillsIt) {
  WritebackWindow window(100);
  const auto range = window.Note(7, 1000);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->offset, 7u);
  EXPECT_EQ(range->byte_count, 1000u);
}

}  // namespace
}  // namespace holdfast
