#include "ground/base/bytes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace holdfast {
namespace {

TEST(Bytes, SlicesShareOwnership) {
  Bytes slice;
  {
    Bytes whole(std::string("0123456789"));
    slice = whole.Slice(2, 3);
  }
  EXPECT_EQ(slice.view(), "234");
  EXPECT_EQ(slice.Slice(3, 0).size(), 0u);
}

TEST(Bytes, TakesTheFrontOfABuffer) {
  Buffer buffer(8);
  std::memcpy(buffer.data(), "abcdefgh", 8);
  const Bytes bytes(std::move(buffer), 3);
  EXPECT_EQ(bytes.view(), "abc");
}

TEST(Buffer, LargeBlocksAreWritableToTheLastByte) {
  Buffer buffer((size_t{5} << 20) + 3);
  buffer.data()[0] = 'a';
  buffer.data()[buffer.size() - 1] = 'z';
  EXPECT_EQ(buffer.view().back(), 'z');
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.view().front(), 'a');
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(Buffer, TryAllocateReportsShortMemory) {
  EXPECT_EQ(Buffer::TryAllocate(SIZE_MAX).data(), nullptr);
  EXPECT_EQ(Buffer::TryAllocate(SIZE_MAX / 2).size(), 0u);
}

}  // namespace
}  // namespace holdfast
