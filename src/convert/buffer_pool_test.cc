#include "convert/buffer_pool.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(BufferPool, GivesTheSameMemoryAgain) {
  BufferPool pool;
  std::shared_ptr<Buffer> a = pool.Get(1000);
  std::shared_ptr<Buffer> b = pool.Get(1000);
  ASSERT_NE(a->data(), b->data());
  const char* const first = a->data();
  a.reset();
  EXPECT_EQ(pool.Get(900)->data(), first);
}

TEST(BufferPool, DropsAsMuchAsItMakes) {
  BufferPool pool;
  pool.Get(1000).reset();
  EXPECT_EQ(pool.Get(5000)->size(), 5000u);
  // The small one is gone: a new one is made, of just this size.
  EXPECT_EQ(pool.Get(960)->size(), 960u);
}

TEST(BufferPool, BuffersOutliveIt) {
  std::shared_ptr<Buffer> buffer;
  {
    BufferPool pool;
    buffer = pool.Get(10);
  }
  buffer->data()[9] = 7;
  EXPECT_EQ(buffer->data()[9], 7);
}

}  // namespace
}  // namespace holdfast
