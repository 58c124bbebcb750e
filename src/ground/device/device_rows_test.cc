#include "ground/device/device_rows.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "ground/tensor/copy.h"
#include "gtest/gtest.h"

namespace holdfast {
namespace {

// An array somewhere in `memory`: some dimensions are permuted, some have gaps,
// run backwards, or repeat elements.
struct RandomArray {
  std::string memory;
  ConstArrayView view;
};

RandomArray MakeArray(std::mt19937& random) {
  const auto draw = [&](int n) {
    return std::uniform_int_distribution<int>(0, n - 1)(random);
  };
  RandomArray array;
  constexpr DType kDTypes[] = {DType::kUint8, DType::kBfloat16, DType::kFloat32,
                               DType::kComplex128};
  array.view.dtype = kDTypes[draw(4)];
  const int rank = draw(5);
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) {
    array.view.shape.push_back(draw(12) == 0 ? 0 : 1 + draw(6));
    order.insert(order.begin() + draw(i + 1), i);
  }
  array.view.strides = Shape(array.view.shape.size());
  int64_t end = static_cast<int64_t>(DTypeBytes(array.view.dtype));
  int64_t first = 0;
  for (const int dim : order) {
    const int64_t extent = std::max<int64_t>(1, array.view.shape[dim]);
    const int kind = draw(8);
    if (kind == 0) continue;  // repeats
    if (kind == 1) end += static_cast<int64_t>(DTypeBytes(array.view.dtype));
    array.view.strides[dim] = kind == 2 ? -end : end;
    if (kind == 2) first += end * (extent - 1);
    end *= extent;
  }
  array.memory.resize(static_cast<size_t>(end));
  for (char& byte : array.memory) byte = static_cast<char>(random());
  array.view.data = array.memory.data() + first;
  return array;
}

Box RandomBox(const Shape& shape, std::mt19937& random) {
  Box box;
  for (const int64_t extent : shape) {
    const int64_t begin =
        std::uniform_int_distribution<int64_t>(0, extent)(random);
    box.origin.push_back(begin);
    box.shape.push_back(
        std::uniform_int_distribution<int64_t>(0, extent - begin)(random));
  }
  return box;
}

// Makes the copies, as a driver would.
void MakeCopies(const BoxRows& rows) {
  for (const RowCopy& copy : rows.copies) {
    ASSERT_GT(copy.row_count, 0u);
    ASSERT_GT(copy.row_bytes, 0u);
    if (copy.row_count > 1) {
      ASSERT_GE(copy.device_pitch, copy.row_bytes);
      ASSERT_LE(copy.device_pitch, kDevicePitchMax);
      ASSERT_GE(copy.host_pitch, copy.row_bytes);
    }
    for (uint64_t row = 0; row < copy.row_count; ++row) {
      std::memcpy(
          copy.host + row * copy.host_pitch,
          reinterpret_cast<const char*>(copy.device) + row * copy.device_pitch,
          copy.row_bytes);
    }
  }
}

std::string ElementsOf(const ConstArrayView& view) {
  std::string bytes(ElementCount(view.shape) * DTypeBytes(view.dtype), '\0');
  CopyStrided(view, {view.dtype, bytes.data(), view.shape,
                     ContiguousStrides(view.shape, DTypeBytes(view.dtype))});
  return bytes;
}

TEST(DeviceRows, CopiesEqualTheSlowTwinsForAnyStridesAndBox) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const RandomArray array = MakeArray(random);
    const Box box = RandomBox(array.view.shape, random);
    const ConstArrayView part = Subview(array.view, box);
    const uint64_t byte_count =
        ElementCount(box.shape) * DTypeBytes(array.view.dtype);
    std::string host(byte_count + 1, '\xee');
    const BoxRows rows = RowsOf(array.view, box, host.data());
    MakeCopies(rows);
    EXPECT_EQ(host.back(), '\xee');
    EXPECT_EQ(ElementsOf(rows.view), ElementsOf(part));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(DeviceRows, CopiesBetweenDevicesEqualTheSlowTwins) {
  int tried_count = 0;
  for (unsigned seed = 0; tried_count < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const RandomArray source = MakeArray(random);
    RandomArray target = MakeArray(random);
    const bool is_usable =
        target.view.shape.size() == source.view.shape.size() &&
        std::ranges::count(target.view.strides, 0) == 0;
    if (!is_usable) continue;
    ++tried_count;
    // The part that both have.
    Box part = BoxOf(source.view.shape);
    for (size_t dim = 0; dim < part.shape.size(); ++dim) {
      part.shape[dim] = std::min(part.shape[dim], target.view.shape[dim]);
    }
    target.view.dtype = source.view.dtype;
    for (int64_t& stride : target.view.strides) stride *= 16;  // widest dtype
    std::string memory(target.memory.size() * 16 + 16, '\xee');
    target.view.data =
        memory.data() + 16 * (target.view.data - target.memory.data());
    const ConstArrayView from = Subview(source.view, part);
    const ConstArrayView to = Subview(target.view, part);
    std::string want = memory;
    CopyStrided(from, {to.dtype, want.data() + (to.data - memory.data()),
                       to.shape, to.strides});
    for (const DeviceRowCopy& copy : RowsBetween(from, to)) {
      if (copy.row_count > 1) {
        ASSERT_GE(copy.source_pitch, copy.row_bytes);
        ASSERT_GE(copy.target_pitch, copy.row_bytes);
        ASSERT_LE(copy.source_pitch, kDevicePitchMax);
        ASSERT_LE(copy.target_pitch, kDevicePitchMax);
      }
      for (uint64_t row = 0; row < copy.row_count; ++row) {
        std::memcpy(
            reinterpret_cast<char*>(copy.target + row * copy.target_pitch),
            reinterpret_cast<const char*>(copy.source +
                                          row * copy.source_pitch),
            copy.row_bytes);
      }
    }
    EXPECT_EQ(memory, want);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(DeviceRows, CutsCoverABoxOnceAndFit) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const RandomArray array = MakeArray(random);
    const Box box = RandomBox(array.view.shape, random);
    const uint64_t element_bytes = DTypeBytes(array.view.dtype);
    const uint64_t byte_count_max =
        std::uniform_int_distribution<uint64_t>(1, 400)(random);
    std::string seen(ElementCount(array.view.shape), '\0');
    const Shape strides = ContiguousStrides(array.view.shape, 1);
    for (const Box& piece : CutBox(array.view, box, byte_count_max)) {
      const uint64_t count = ElementCount(piece.shape);
      EXPECT_TRUE(count * element_bytes <= byte_count_max || count == 1);
      ArrayView marks{DType::kUint8, seen.data(), array.view.shape, strides};
      const ArrayView part = Subview(marks, piece);
      const char zero = '\0';
      EXPECT_TRUE(AllEqual(part, &zero));
      const char one = '\1';
      FillStrided(part, &one);
    }
    std::string want(seen.size(), '\0');
    ArrayView marks{DType::kUint8, want.data(), array.view.shape, strides};
    const char one = '\1';
    FillStrided(Subview(marks, box), &one);
    EXPECT_EQ(seen, want);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(DeviceRows, RowsAreAsLongAsMemoryAllows) {
  const std::string memory(6 * 8 * 4, 'x');
  std::string host(memory.size(), ' ');
  const ConstArrayView rows_first{
      DType::kFloat32, memory.data(), {6, 8}, {32, 4}};
  const auto copies = [&](const ConstArrayView& array, const Box& box) {
    return RowsOf(array, box, host.data()).copies;
  };
  // All of a dense array is one run, in whichever order it is stored.
  EXPECT_EQ(copies(rows_first, {{0, 0}, {6, 8}}).size(), 1u);
  EXPECT_EQ(copies(rows_first, {{0, 0}, {6, 8}})[0].row_bytes, 192u);
  const ConstArrayView columns_first{
      DType::kFloat32, memory.data(), {8, 6}, {4, 32}};
  EXPECT_EQ(copies(columns_first, {{0, 0}, {8, 6}})[0].row_bytes, 192u);
  // Part of the columns: one copy of rows.
  const auto part = copies(rows_first, {{1, 2}, {4, 3}});
  ASSERT_EQ(part.size(), 1u);
  EXPECT_EQ(part[0].row_count, 4u);
  EXPECT_EQ(part[0].row_bytes, 12u);
  EXPECT_EQ(part[0].device_pitch, 32u);
  EXPECT_EQ(part[0].host_pitch, 12u);
}

}  // namespace
}  // namespace holdfast
