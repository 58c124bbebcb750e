#include "ground/base/buffer_pool.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;

TEST(BufferPool, GivesTheSameMemoryAgain) {
  BufferPool pool;
  std::shared_ptr<Buffer> a = pool.Get(10 * kMebi);
  std::shared_ptr<Buffer> b = pool.Get(10 * kMebi);
  ASSERT_NE(a->data(), b->data());
  const char* const first = a->data();
  a.reset();
  EXPECT_EQ(pool.Get(9 * kMebi)->data(), first);
}

TEST(BufferPool, DropsAsMuchAsItMakes) {
  BufferPool pool;
  pool.Get(10 * kMebi).reset();
  EXPECT_EQ(pool.Get(50 * kMebi)->size(), 50 * kMebi);
  // The small buffer was dropped: a new one of exactly this size is made.
  EXPECT_EQ(pool.Get(9 * kMebi)->size(), 9 * kMebi);
}

TEST(BufferPool, KeepsNoSmallOnes) {
  BufferPool pool;
  EXPECT_EQ(pool.Get(10)->size(), 10u);
  EXPECT_EQ(pool.Get(9)->size(), 9u);
}

TEST(BufferPool, BuffersOutliveIt) {
  std::shared_ptr<Buffer> buffer;
  {
    BufferPool pool;
    buffer = pool.Get(2 * kMebi);
  }
  buffer->data()[9] = 7;
  EXPECT_EQ(buffer->data()[9], 7);
}

}  // namespace
}  // namespace holdfast
