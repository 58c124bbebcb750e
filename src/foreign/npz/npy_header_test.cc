#include "foreign/npz/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::HasSubstr;

std::string NpyOf(const std::string& dict) {
  std::string text = "\x93NUMPY";
  text += {'\1', '\0', static_cast<char>(dict.size()), '\0'};
  return text + dict;
}

struct GoodNpy {
  const char* descr;
  const char* fortran_order;
  const char* shape;
  DType dtype;
  Shape as_shape;
  Shape strides;
  bool is_big_endian;
};

TEST(NpyHeader, UnderstandsWhatNumpyWrites) {
  const GoodNpy rows[] = {
      {"<f4", "False", "(3, 4)", DType::kFloat32, {3, 4}, {16, 4}, false},
      {"<f4", "True", "(3, 4)", DType::kFloat32, {3, 4}, {4, 12}, false},
      {">i2", "False", "(3,)", DType::kInt16, {3}, {2}, true},
      {"|b1", "False", "()", DType::kBool, {}, {}, false},
      {">u1", "False", "(2,)", DType::kUint8, {2}, {1}, false},
      {"<c16", "False", "(0, 5)", DType::kComplex128, {0, 5}, {80, 16}, false},
      {"<V2", "False", "(3,)", DType::kBfloat16, {3}, {2}, false},
      {"<V2", "True", "(3, 2)", DType::kBfloat16, {3, 2}, {2, 6}, false},
      {"<f1", "False", "(3,)", DType::kFloat8E5m2, {3}, {1}, false},
      {"<U5", "False", "()", DType::kUint32, {5}, {4}, false},
      {">U5", "False", "()", DType::kUint32, {5}, {4}, true},
      {"|S3", "False", "()", DType::kUint8, {3}, {1}, false},
  };
  for (const GoodNpy& row : rows) {
    const auto header =
        ParseNpyHeader(NpyOf("{'descr': '" + std::string(row.descr) +
                             "', 'fortran_order': " + row.fortran_order +
                             ", 'shape': " + row.shape + ", }   \n"));
    ASSERT_TRUE(header.ok()) << row.descr << header.status().ToString();
    EXPECT_EQ(header->dtype, row.dtype) << row.descr;
    EXPECT_EQ(header->shape, row.as_shape) << row.descr;
    EXPECT_EQ(header->is_big_endian, row.is_big_endian) << row.descr;
    if (header->data_bytes > 0) {
      EXPECT_EQ(header->strides, row.strides) << row.descr;
    }
  }
}

TEST(NpyHeader, TakesNoElementsForThoseOfAnotherType) {
  for (const char* descr : {"|V2", ">V2", "<V1", "|V1", "|V3", "<U5", "|S3",
                            "<M8[ns]", "<m8[s]", "<W4", "<f16", "<c32", "|O"}) {
    const auto header = ParseNpyHeader(
        NpyOf("{'descr': '" + std::string(descr) +
              "', 'fortran_order': False, 'shape': (2,), }   \n"));
    EXPECT_EQ(header.status().code(), StatusCode::kUnimplemented) << descr;
    if (std::string_view(descr) == "|O") continue;
    EXPECT_THAT(std::string(header.status().message()), HasSubstr(descr));
  }
}

TEST(NpyHeader, WritesWhatItReads) {
  const std::string bytes = NpyHeaderBytes(DType::kFloat64, {7});
  EXPECT_EQ(bytes.size() % 64, 0u);
  const auto header = ParseNpyHeader(bytes);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(header->dtype, DType::kFloat64);
  EXPECT_EQ(header->shape, (Shape{7}));
  EXPECT_EQ(header->header_bytes, bytes.size());
  EXPECT_EQ(header->data_bytes, 56u);
}

TEST(NpyHeader, RefusesWhatItIsNot) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "want '{' at byte 0"},
      {"{}", "it lacks descr"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)", "want"},
      {"{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}",
       "want True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
       "want an extent"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 3}", "want '('"},
      {"{'descr': '<f4', 'descr': '<f4'}", "there twice"},
      {"{'descr': '<f4', 'evil': 1}", "unknown"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
       "want the end"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
       "Python objects"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
       "structures"},
      {"{'descr': '<f3', 'fortran_order': False, 'shape': (3,)}", "dtype"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': "
       "(4611686018427387904, 4)}",
       "too large"},
  };
  for (const auto& [dict, message] : rows) {
    const auto header = ParseNpyHeader(NpyOf(dict));
    EXPECT_FALSE(header.ok()) << dict;
    EXPECT_THAT(std::string(header.status().message()), HasSubstr(message))
        << dict;
  }
  EXPECT_FALSE(ParseNpyHeader("").ok());
  EXPECT_FALSE(
      ParseNpyHeader(std::string("\x93NUMPY\x04\x00\x00\x00", 10)).ok());
  EXPECT_FALSE(
      ParseNpyHeader(std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12))
          .ok());
}

}  // namespace
}  // namespace holdfast
