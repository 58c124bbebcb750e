#include "cli/array_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "cli/npy.h"

namespace holdfast::cli {
namespace {

template <typename T>
std::string Printed(DType dtype, const Shape& shape,
                    const std::vector<T>& values) {
  const Array array = Array::FromBytes(dtype, shape, values.data());
  std::ostringstream out;
  PrintArray(array.view(), shape, out);
  return out.str();
}

// The expected texts are what numpy prints.
TEST(PrintArray, LaysOutAsNumpy) {
  EXPECT_EQ(Printed<int32_t>(DType::kInt32, {2, 3}, {1, 2, 3, 40, 5, -6}),
            "[[ 1  2  3]\n [40  5 -6]]\n");
  EXPECT_EQ(Printed<float>(DType::kFloat32, {2}, {0.1f, 100}),
            "[  0.1 100. ]\n");
  EXPECT_EQ(Printed<float>(DType::kFloat32, {3}, {1, NAN, -INFINITY}),
            "[  1.  nan -inf]\n");
  EXPECT_EQ(Printed<double>(DType::kFloat64, {2}, {1e-20, 1}),
            "[1.e-20 1.e+00]\n");
  EXPECT_EQ(Printed<uint8_t>(DType::kBool, {2}, {1, 0}), "[ True False]\n");
  EXPECT_EQ(Printed<float>(DType::kComplex64, {2}, {1, 2, 3, 0}),
            "[1.+2.j 3.+0.j]\n");
  EXPECT_EQ(Printed<int32_t>(DType::kInt32, {2, 1, 2}, {1, 2, 3, 4}),
            "[[[1 2]]\n\n [[3 4]]]\n");
  EXPECT_EQ(Printed<int32_t>(DType::kInt32, {0, 3}, {}), "[]\n");
  EXPECT_EQ(Printed<double>(DType::kFloat64, {}, {2.5}), "2.5\n");
}

TEST(PrintArray, WrapsLongRows) {
  std::vector<int32_t> values(40);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(Printed(DType::kInt32, {40}, values),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 "
            "21 22 23\n 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]\n");
}

TEST(PrintArray, LeavesNoSpacesAtLineEnds) {
  std::vector<float> values(30, 1);
  values[29] = 0.125f;
  EXPECT_EQ(
      Printed(DType::kFloat32, {30}, values),
      "[1.    1.    1.    1.    1.    1.    1.    1.    1.    1.    1.    "
      "1.\n 1.    1.    1.    1.    1.    1.    1.    1.    1.    1.    "
      "1.    1.\n 1.    1.    1.    1.    1.    0.125]\n");
}

TEST(PrintArray, EndsExponentsInOneColumn) {
  EXPECT_EQ(Printed<float>(DType::kFloat32, {3}, {1.25e20f, -1, NAN}),
            "[1.25e+20  -1.e+00      nan]\n");
}

TEST(PrintArray, MarksGaps) {
  const std::vector<int32_t> edges = {0, 1, 2, 997, 998, 999};
  const Array array = Array::FromBytes(DType::kInt32, {6}, edges.data());
  std::ostringstream out;
  PrintArray(array.view(), {1000}, out);
  EXPECT_EQ(out.str(), "[  0   1   2 ... 997 998 999]\n");
}

TEST(WriteArrayBytes, FollowsStrides) {
  const Array array = Array::FromBytes(DType::kUint8, {2, 3}, "abcdef");
  ConstArrayView transposed = array.view();
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  std::ostringstream plain, swapped;
  WriteArrayBytes(array.view(), plain);
  WriteArrayBytes(transposed, swapped);
  EXPECT_EQ(plain.str(), "abcdef");
  EXPECT_EQ(swapped.str(), "adbecf");
}

// The start of an .npy header. The version determines the size of the length
// field; `prefix_bytes` includes that field, `dict_bytes` is its value.
struct NpyPrefix {
  int version = 0;
  size_t prefix_bytes = 0;
  size_t dict_bytes = 0;
};

NpyPrefix ReadPrefix(const std::string& header) {
  NpyPrefix prefix;
  prefix.version = header[6];
  const size_t length_bytes = prefix.version == 1 ? 2 : 4;
  prefix.prefix_bytes = 8 + length_bytes;
  for (size_t i = 0; i < length_bytes; ++i) {
    prefix.dict_bytes |= size_t{static_cast<unsigned char>(header[8 + i])}
                         << (8 * i);
  }
  return prefix;
}

TEST(NpyHeader, IsAlignedAndSaysItsLength) {
  Shape shape;
  for (int rank = 0; rank < 40; ++rank) {
    const std::string header = NpyHeader(DType::kFloat32, shape);
    EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
    EXPECT_EQ(header.size() % 64, 0u) << rank;
    const NpyPrefix prefix = ReadPrefix(header);
    EXPECT_EQ(prefix.prefix_bytes + prefix.dict_bytes, header.size());
    EXPECT_EQ(header.back(), '\n');
    shape.push_back(rank);
  }
}

TEST(NpyHeader, IsVersion2WhenLong) {
  const std::string header = NpyHeader(DType::kInt8, Shape(30000, 1));
  const NpyPrefix prefix = ReadPrefix(header);
  EXPECT_EQ(prefix.version, 2);
  EXPECT_EQ(prefix.prefix_bytes + prefix.dict_bytes, header.size());
  EXPECT_EQ(header.size() % 64, 0u);
}

TEST(NpyHeader, HoldsAPythonDict) {
  const std::string dict = NpyHeader(DType::kFloat32, {2, 3}).substr(10);
  EXPECT_EQ(dict.substr(0, dict.find('}') + 1),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
}

TEST(NpyDescr, NamesEachTypeAsNumpyDoes) {
  EXPECT_EQ(NpyDescr(DType::kBool), "|b1");
  EXPECT_EQ(NpyDescr(DType::kInt8), "|i1");
  EXPECT_EQ(NpyDescr(DType::kUint64), "<u8");
  EXPECT_EQ(NpyDescr(DType::kFloat16), "<f2");
  EXPECT_EQ(NpyDescr(DType::kComplex128), "<c16");
  EXPECT_EQ(NpyDescr(DType::kBfloat16), "<V2");
  EXPECT_EQ(NpyDescr(DType::kFloat8E5m2), "<V1");
  EXPECT_EQ(NpyDescr(DType::kInt4), "<V1");
}

TEST(NpyHeader, SpellsShapesAsTuples) {
  EXPECT_NE(NpyHeader(DType::kInt8, {}).find("'shape': ()"), std::string::npos);
  EXPECT_NE(NpyHeader(DType::kInt8, {5}).find("'shape': (5,)"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::cli
