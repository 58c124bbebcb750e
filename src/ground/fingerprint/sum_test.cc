#include "ground/fingerprint/sum.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

int64_t Between(std::mt19937_64& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

uint64_t SlowMix(uint64_t number) {
  uint64_t z = number + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Returns the sum by its definition, computed byte by byte from elements in C
// order.
FingerprintSum SlowSum(const std::vector<char>& bytes) {
  FingerprintSum sum;
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    const uint64_t block = i / 4096, j = i % 4096 / 4;
    const uint64_t x = uint64_t{static_cast<uint8_t>(bytes[i])}
                       << (8 * (i % 4));
    const uint64_t first = uint64_t{1} << 63;
    sum.low +=
        (SlowMix(2 * block) | 1) * ((SlowMix(first + 2 * j) >> 32 | 1) * x);
    sum.high += (SlowMix(2 * block + 1) | 1) *
                ((SlowMix(first + 2 * j + 1) >> 32 | 1) * x);
  }
  return sum;
}

std::vector<char> RandomBytes(std::mt19937_64& random, DType dtype,
                              size_t count) {
  std::vector<char> bytes(count * DTypeBytes(dtype));
  for (char& byte : bytes) byte = static_cast<char>(random());
  ClearUnusedBits(dtype, bytes.data(), count);
  return bytes;
}

ConstArrayView ViewOf(DType dtype, const Shape& shape,
                      const std::vector<char>& bytes) {
  return {dtype, bytes.data(), shape,
          ContiguousStrides(shape, DTypeBytes(dtype))};
}

FingerprintSum SumOfBytes(const std::vector<char>& bytes) {
  const Shape shape{static_cast<int64_t>(bytes.size())};
  return SumOfBox(ViewOf(DType::kUint8, shape, bytes), {}, shape);
}

// Splits the box at random, repeatedly.
void CutAtRandom(std::mt19937_64& random, const Box& box,
                 std::vector<Box>& boxes) {
  const size_t rank = box.shape.size();
  const size_t axis = rank == 0 ? 0 : Between(random, 0, rank - 1);
  if (rank == 0 || box.shape[axis] < 2 || Between(random, 0, 5) == 0) {
    boxes.push_back(box);
    return;
  }
  Box head = box, tail = box;
  head.shape[axis] = Between(random, 1, box.shape[axis] - 1);
  tail.origin[axis] += head.shape[axis];
  tail.shape[axis] -= head.shape[axis];
  CutAtRandom(random, head, boxes);
  CutAtRandom(random, tail, boxes);
}

// A view's elements stored in another order, with gaps, and backwards in some
// axes.
struct Scattered {
  std::vector<char> memory;
  ArrayView view;
};
Scattered Scatter(std::mt19937_64& random, const ConstArrayView& source) {
  const size_t rank = source.shape.size();
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  if (Between(random, 0, 2) > 0)
    std::shuffle(order.begin(), order.end(), random);
  Scattered result;
  result.view = {source.dtype, nullptr, source.shape, Shape(rank, 0)};
  int64_t step = DTypeBytes(source.dtype), first = 0;
  for (size_t i = rank; i-- > 0;) {
    const size_t axis = order[i];
    step += Between(random, 0, 3) == 0 ? step * Between(random, 1, 2) : 0;
    const bool is_backwards = Between(random, 0, 3) == 0;
    result.view.strides[axis] = is_backwards ? -step : step;
    if (is_backwards) first += (source.shape[axis] - 1) * step;
    step *= source.shape[axis];
  }
  result.memory.resize(step, '\x5a');
  result.view.data = result.memory.data() + first;
  CopyStrided(source, result.view);
  return result;
}

TEST(FingerprintSum, IsItsDefinition) {
  std::mt19937_64 random(1);
  for (const size_t count : {0, 1, 3, 4, 5, 31, 4095, 4096, 4097, 20000}) {
    const std::vector<char> bytes = RandomBytes(random, DType::kUint8, count);
    EXPECT_EQ(SumOfBytes(bytes), SlowSum(bytes)) << count;
  }
}

TEST(FingerprintSum, AnyPartitionInAnyMemoryAndOrderGivesTheSame) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 400; ++round) {
    const auto dtype = static_cast<DType>(Between(random, 0, kDTypeCount - 1));
    Shape shape(Between(random, 0, 4));
    const int64_t largest = shape.size() < 3 ? 120 : 12;
    for (int64_t& extent : shape) extent = Between(random, 1, largest);
    const std::vector<char> bytes =
        RandomBytes(random, dtype, ElementCount(shape));
    const ConstArrayView whole = ViewOf(dtype, shape, bytes);
    std::vector<Box> boxes;
    CutAtRandom(random, BoxOf(shape), boxes);
    std::shuffle(boxes.begin(), boxes.end(), random);
    FingerprintSum sum;
    for (const Box& box : boxes) {
      const Scattered part = Scatter(random, Subview(whole, box));
      sum += SumOfBox(part.view, box.origin, shape);
    }
    EXPECT_EQ(sum, SlowSum(bytes))
        << DTypeName(dtype) << " " << ShapeToString(shape);
  }
}

TEST(FingerprintSum, UnusedBitsDoNotCount) {
  const Shape shape{5000};
  std::vector<char> clean(5000, 3), dirty = clean, ones(5000, 1);
  for (size_t i = 0; i < dirty.size(); i += 7) dirty[i] |= 0x70;
  EXPECT_EQ(SumOfBox(ViewOf(DType::kUint4, shape, dirty), {}, shape),
            SlowSum(clean));
  EXPECT_EQ(SumOfBox(ViewOf(DType::kBool, shape, dirty), {}, shape),
            SlowSum(ones));
}

// Both halves must change with each flip of one bit. To notice the flip, one
// half of 64 bits would be enough.
TEST(FingerprintSum, EveryFlipOfOneBitChangesBothHalves) {
  std::mt19937_64 random(3);
  std::vector<char> bytes = RandomBytes(random, DType::kUint8, 9000);
  const FingerprintSum sum = SumOfBytes(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const FingerprintSum flipped = SumOfBytes(bytes);
    ASSERT_NE(flipped.low, sum.low) << bit;
    ASSERT_NE(flipped.high, sum.high) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

// Flips the highest bits of each pair of words. Such flips change the fewest
// bits of a sum.
TEST(FingerprintSum, TwoHighestBitsNeverCancel) {
  constexpr size_t kWords = 1100;  // more than a block
  std::set<std::pair<uint64_t, uint64_t>> seen;
  std::vector<FingerprintSum> deltas;
  for (size_t i = 0; i < kWords; ++i) {
    std::vector<char> bytes(4 * kWords, 0);
    bytes[4 * i + 3] = '\x80';
    deltas.push_back(SumOfBytes(bytes));
  }
  for (size_t i = 0; i < kWords; ++i) {
    for (size_t j = 0; j < i; ++j) {
      FingerprintSum sum = deltas[i];
      ASSERT_TRUE(seen.insert({(sum += deltas[j]).low, sum.high}).second)
          << i << " " << j;
    }
  }
}

// Kinds of changes that simple sums miss.
TEST(FingerprintSum, FindsWhatSimpleSumsMiss) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    const DType dtype = round % 2 == 0 ? DType::kFloat32 : DType::kBfloat16;
    const size_t bytes_each = DTypeBytes(dtype);
    const int64_t rows = Between(random, 2, 8);
    const int64_t columns = round % 3 == 0 ? 2048 : Between(random, 2, 3000);
    const std::vector<char> bytes = RandomBytes(random, dtype, rows * columns);
    const FingerprintSum sum = SumOfBytes(bytes);
    std::vector<char> swapped = bytes;  // two elements
    const size_t a = Between(random, 0, rows * columns - 1) * bytes_each;
    const size_t b = Between(random, 0, rows * columns - 1) * bytes_each;
    std::swap_ranges(&swapped[a], &swapped[a] + bytes_each, &swapped[b]);
    EXPECT_EQ(SumOfBytes(swapped) == sum, swapped == bytes);
    swapped = bytes;  // two rows, which may be whole blocks
    const size_t row_bytes = columns * bytes_each;
    std::swap_ranges(&swapped[0], &swapped[0] + row_bytes,
                     &swapped[(rows - 1) * row_bytes]);
    EXPECT_NE(SumOfBytes(swapped), sum);
    std::vector<char> moved = bytes;  // all shifted by one element
    std::rotate(moved.begin(), moved.begin() + bytes_each, moved.end());
    EXPECT_NE(SumOfBytes(moved), sum);
    std::vector<char> signs = bytes;  // every sign
    for (size_t i = bytes_each - 1; i < signs.size(); i += bytes_each) {
      signs[i] ^= '\x80';
    }
    EXPECT_NE(SumOfBytes(signs), sum);
    std::vector<char> flipped = bytes;  // two bits
    flipped[a] ^= static_cast<char>(1 << Between(random, 0, 7));
    flipped[b] ^= static_cast<char>(1 << Between(random, 0, 7));
    EXPECT_EQ(SumOfBytes(flipped) == sum, flipped == bytes);
  }
}

TEST(FingerprintSum, DTypeAndShapeAreMixedIn) {
  std::set<std::string> seen;
  const std::vector<Shape> shapes = {{},     {0},    {1},    {8}, {2, 4},
                                     {4, 2}, {8, 1}, {0, 8}, {16}};
  for (const Shape& shape : shapes) {
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      seen.insert(FingerprintHex(TagOf(static_cast<DType>(dtype), shape)));
    }
  }
  EXPECT_EQ(seen.size(), shapes.size() * kDTypeCount);
}

TEST(FingerprintSum, HexGoesBothWays) {
  const FingerprintSum sum{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(FingerprintHex(sum), "fedcba98765432100123456789abcdef");
  EXPECT_EQ(ParseFingerprintHex("fedcba98765432100123456789abcdef"), sum);
  EXPECT_EQ(ParseFingerprintHex("fedcba98765432100123456789abcde"),
            std::nullopt);
  EXPECT_EQ(ParseFingerprintHex("fedcba98765432100123456789abcdeg"),
            std::nullopt);
}

}  // namespace
}  // namespace holdfast
