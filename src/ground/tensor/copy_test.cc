// Compares every copy with a reference that walks the elements one by one.
#include "ground/tensor/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ground/tensor/random_test_util.h"

namespace holdfast {
namespace {

constexpr DType kDTypes[] = {DType::kInt4,      DType::kBfloat16,
                             DType::kFloat32,   DType::kFloat64,
                             DType::kComplex64, DType::kComplex128};

// Calls fn for every index of the shape, in C order.
void ForEachIndex(const Shape& shape,
                  const std::function<void(const Shape&)>& fn) {
  if (ElementCount(shape) == 0) return;
  Shape index(shape.size(), 0);
  for (;;) {
    fn(index);
    size_t i = shape.size();
    while (i > 0 && ++index[i - 1] == shape[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

int64_t OffsetOf(const Shape& strides, const Shape& index) {
  return std::inner_product(index.begin(), index.end(), strides.begin(),
                            int64_t{0});
}

// Memory with a layout: element i lies at base + the sum of index x stride.
struct Layout {
  Shape strides;
  int64_t base = 0;
  int64_t byte_count = 0;
};

// Returns strides for a random order of the dimensions. Some dimensions have
// gaps between their steps, some run backwards, and in sources some have stride
// 0.
Layout RandomLayout(std::mt19937& random, const Shape& shape,
                    int64_t element_bytes, bool may_repeat) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (RandomInt(random, 0, 2) > 0) {
    std::shuffle(order.begin(), order.end(), random);
  }
  Layout layout;
  layout.strides.resize(shape.size());
  int64_t step = element_bytes;
  for (const size_t i : order) {
    // A gap need not be a multiple of an element: memory may be unaligned.
    if (RandomInt(random, 0, 3) == 0) step += RandomInt(random, 1, 9);
    const bool repeat = may_repeat && RandomInt(random, 0, 7) == 0;
    const bool backwards = RandomInt(random, 0, 5) == 0;
    layout.strides[i] = repeat ? 0 : backwards ? -step : step;
    const int64_t extent = std::max<int64_t>(shape[i], 1);
    if (backwards && !repeat) layout.base += (extent - 1) * step;
    if (!repeat) step *= extent;
  }
  layout.byte_count = step + element_bytes;
  return layout;
}

struct Operands {
  DType dtype = DType::kUint8;
  Shape shape;
  Layout source_layout;
  Layout target_layout;
  std::string source_bytes;
  std::string target_bytes;

  ConstArrayView source() const {
    return {dtype, source_bytes.data() + source_layout.base, shape,
            source_layout.strides};
  }
  ArrayView target() {
    return {dtype, target_bytes.data() + target_layout.base, shape,
            target_layout.strides};
  }
  int64_t element_bytes() const {
    return static_cast<int64_t>(DTypeBytes(dtype));
  }
};

std::string RandomBytes(std::mt19937& random, int64_t byte_count) {
  std::string bytes(byte_count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

Operands RandomOperands(std::mt19937& random, int64_t rank,
                        int64_t extent_max) {
  Operands operands;
  operands.dtype = kDTypes[RandomInt(random, 0, std::size(kDTypes) - 1)];
  for (int64_t i = 0; i < rank; ++i) {
    const bool empty = RandomInt(random, 0, 30) == 0;
    operands.shape.push_back(empty ? 0 : RandomInt(random, 1, extent_max));
  }
  const int64_t element_bytes = operands.element_bytes();
  operands.source_layout =
      RandomLayout(random, operands.shape, element_bytes, true);
  operands.target_layout =
      RandomLayout(random, operands.shape, element_bytes, false);
  operands.source_bytes =
      RandomBytes(random, operands.source_layout.byte_count);
  operands.target_bytes =
      RandomBytes(random, operands.target_layout.byte_count);
  return operands;
}

std::vector<Operands> ManyOperands(int seed) {
  std::mt19937 random(seed);
  std::vector<Operands> many;
  for (int trial = 0; trial < 1400; ++trial) {
    many.push_back(RandomOperands(random, trial % 7, 4));
  }
  // Larger than a tile of any element size, with ragged edges.
  for (int trial = 0; trial < 200; ++trial) {
    many.push_back(RandomOperands(random, 1 + trial % 2, 150));
    many.push_back(RandomOperands(random, 3, 30));
  }
  return many;
}

std::string Describe(const Operands& operands) {
  return std::string(DTypeName(operands.dtype)) + " " +
         ShapeToString(operands.shape) + " from " +
         ShapeToString(operands.source_layout.strides) + " to " +
         ShapeToString(operands.target_layout.strides);
}

// Returns the bytes that the target memory must hold after the element-wise
// `change`.
std::string Expected(const Operands& operands,
                     const std::function<void(std::string&)>& change) {
  std::string want = operands.target_bytes;
  ForEachIndex(operands.shape, [&](const Shape& index) {
    const int64_t from = operands.source_layout.base +
                         OffsetOf(operands.source_layout.strides, index);
    const int64_t to = operands.target_layout.base +
                       OffsetOf(operands.target_layout.strides, index);
    std::string element =
        operands.source_bytes.substr(from, operands.element_bytes());
    change(element);
    want.replace(to, element.size(), element);
  });
  return want;
}

TEST(CopyTest, CopyStridedLikeTheTwin) {
  for (Operands& operands : ManyOperands(1)) {
    const std::string want = Expected(operands, [](std::string&) {});
    CopyStrided(operands.source(), operands.target());
    ASSERT_EQ(operands.target_bytes, want) << Describe(operands);
  }
}

TEST(CopyTest, CopyByteSwappedLikeTheTwin) {
  for (Operands& operands : ManyOperands(2)) {
    const bool complex = DTypeKindOf(operands.dtype) == DTypeKind::kComplex;
    const std::string want = Expected(operands, [&](std::string& element) {
      const auto middle = element.begin() + element.size() / 2;
      std::reverse(element.begin(), complex ? middle : element.end());
      if (complex) std::reverse(middle, element.end());
    });
    CopyByteSwapped(operands.source(), operands.target());
    ASSERT_EQ(operands.target_bytes, want) << Describe(operands);
  }
}

TEST(CopyTest, FillStridedLikeTheTwin) {
  for (Operands& operands : ManyOperands(3)) {
    const std::string fill = "0123456789abcdef";
    const std::string want = Expected(operands, [&](std::string& element) {
      element = fill.substr(0, element.size());
    });
    FillStrided(operands.target(), fill.data());
    ASSERT_EQ(operands.target_bytes, want) << Describe(operands);
  }
}

TEST(CopyTest, AllEqualSeesEveryElementAndNothingElse) {
  std::mt19937 random(4);
  for (Operands& operands : ManyOperands(5)) {
    const std::string fill = "fedcba9876543210";
    const ArrayView view = operands.target();
    FillStrided(view, fill.data());
    EXPECT_TRUE(AllEqual(view, fill.data())) << Describe(operands);
    if (ElementCount(operands.shape) == 0) continue;
    Shape index;
    for (const int64_t extent : operands.shape) {
      index.push_back(RandomInt(random, 0, extent - 1));
    }
    const int64_t byte = RandomInt(random, 0, operands.element_bytes() - 1);
    view.data[OffsetOf(view.strides, index) + byte] ^= 1;
    EXPECT_FALSE(AllEqual(view, fill.data())) << Describe(operands);
  }
}

TEST(CopyTest, AllEqualComparesBitsNotValues) {
  const float zeros[] = {0.0f, -0.0f};
  const ConstArrayView view = {
      DType::kFloat32, reinterpret_cast<const char*>(zeros), {2}, {4}};
  EXPECT_FALSE(AllEqual(view, reinterpret_cast<const char*>(zeros)));
}

TEST(CopyTest, AllEqualOfAnEmptyViewIsTrue) {
  EXPECT_TRUE(AllEqual({DType::kInt8, nullptr, {0}, {1}}, "x"));
}

TEST(CopyTest, RankMax) {
  const Shape shape(kRankMax, 1);
  const Shape strides(kRankMax, 0);
  const std::string source = "abcdefghijklmnop";
  std::string target(16, '?');
  CopyByteSwapped({DType::kComplex128, source.data(), shape, strides},
                  {DType::kComplex128, target.data(), shape, strides});
  EXPECT_EQ(target, "hgfedcbaponmlkji");
}

TEST(CopyTest, ClearUnusedBits) {
  const std::string dirty = "\xff\x35\x80\x07";
  const auto cleared = [&](DType dtype) {
    std::string data = dirty;
    ClearUnusedBits(dtype, data.data(), 3);
    return data;
  };
  EXPECT_EQ(cleared(DType::kInt4), std::string("\x0f\x05\x00\x07", 4));
  EXPECT_EQ(cleared(DType::kFloat4E2m1fn), std::string("\x0f\x0d\x08\x07", 4));
  EXPECT_EQ(cleared(DType::kUint2), std::string("\x03\x01\x00\x07", 4));
  EXPECT_EQ(cleared(DType::kInt8), dirty);
  EXPECT_EQ(cleared(DType::kBool), std::string("\x01\x01\x01\x07", 4));
}

TEST(CopyTest, UnusedBitsAreSeenAnywhere) {
  std::string bytes(1000, '\x01');
  bytes[3] = '\0';
  EXPECT_FALSE(HasUnusedBits(DType::kBool, bytes));
  EXPECT_FALSE(HasUnusedBits(DType::kInt2, bytes));
  bytes[999] = '\x04';
  EXPECT_TRUE(HasUnusedBits(DType::kBool, bytes));
  EXPECT_TRUE(HasUnusedBits(DType::kInt2, bytes));
  EXPECT_FALSE(HasUnusedBits(DType::kInt4, bytes));
  EXPECT_FALSE(HasUnusedBits(DType::kUint8, bytes));
  EXPECT_FALSE(HasUnusedBits(DType::kFloat32, bytes));
  EXPECT_FALSE(HasUnusedBits(DType::kBool, ""));
}

}  // namespace
}  // namespace holdfast
