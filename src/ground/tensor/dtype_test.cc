#include "holdfast/dtype.h"

#include <gtest/gtest.h>

#include <complex>
#include <set>
#include <string>
#include <string_view>

namespace holdfast {
namespace {

TEST(DTypeTest, NamesGoBothWays) {
  std::set<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    names.insert(std::string(DTypeName(dtype)));
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kDTypeCount));
}

// DTypeOf maps each C++ type to the dtype of its kind and size.
TEST(DTypeTest, TypesOfCpp) {
  const auto fits = []<typename T>(std::string_view name, T) {
    constexpr DType dtype = DTypeOf<T>::value;
    return DTypeName(dtype) == name && DTypeBytes(dtype) == sizeof(T);
  };
  EXPECT_TRUE(fits("bool", false));
  EXPECT_TRUE(fits("int8", int8_t()));
  EXPECT_TRUE(fits("int16", int16_t()));
  EXPECT_TRUE(fits("int32", int32_t()));
  EXPECT_TRUE(fits("int64", int64_t()));
  EXPECT_TRUE(fits("uint8", uint8_t()));
  EXPECT_TRUE(fits("uint16", uint16_t()));
  EXPECT_TRUE(fits("uint32", uint32_t()));
  EXPECT_TRUE(fits("uint64", uint64_t()));
  EXPECT_TRUE(fits("float32", float()));
  EXPECT_TRUE(fits("float64", double()));
  EXPECT_TRUE(fits("complex64", std::complex<float>()));
  EXPECT_TRUE(fits("complex128", std::complex<double>()));
}

TEST(DTypeTest, UnknownNames) {
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
  EXPECT_EQ(DTypeFromName("float"), std::nullopt);
  EXPECT_EQ(DTypeFromName("Float32"), std::nullopt);
  EXPECT_EQ(DTypeFromName("int128"), std::nullopt);
}

// The number in each name is its bit count; sub-byte types take a full byte.
TEST(DTypeTest, SizesFollowTheNames) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(DTypeName(dtype));
    if (dtype == DType::kBool) continue;
    const int bits = std::stoi(name.substr(name.find_first_of("123456789")));
    EXPECT_EQ(DTypeBits(dtype), bits) << name;
    EXPECT_EQ(DTypeBytes(dtype), static_cast<size_t>((bits + 7) / 8)) << name;
  }
  EXPECT_EQ(DTypeBits(DType::kBool), 8);
  EXPECT_EQ(DTypeBytes(DType::kBool), 1u);
}

TEST(DTypeTest, KindsFollowTheNames) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(DTypeName(dtype));
    DTypeKind want = DTypeKind::kFloat;
    if (name == "bool") want = DTypeKind::kBool;
    if (name.starts_with("int")) want = DTypeKind::kSigned;
    if (name.starts_with("uint")) want = DTypeKind::kUnsigned;
    if (name.starts_with("complex")) want = DTypeKind::kComplex;
    EXPECT_EQ(DTypeKindOf(dtype), want) << name;
  }
}

}  // namespace
}  // namespace holdfast
