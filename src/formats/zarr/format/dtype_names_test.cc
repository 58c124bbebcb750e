#include "formats/zarr/format/dtype_names.h"

#include <gtest/gtest.h>

namespace holdfast::zarr {
namespace {

TEST(DTypeNamesTest, EveryTypeHasOneNameInEachFormat) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    SCOPED_TRACE(DTypeName(dtype));
    const auto v2 = DTypeToV2({dtype, Endian::kLittle});
    const auto v3 = DTypeToV3(dtype);
    const bool named = dtype != DType::kUint2 && dtype != DType::kUint4;
    ASSERT_EQ(v2.has_value(), named);
    ASSERT_EQ(v3.has_value(), named);
    if (!named) continue;
    EXPECT_EQ(DTypeFromV2(*v2), (StoredDType{dtype, Endian::kLittle}));
    EXPECT_EQ(DTypeFromV3(*v3), dtype);
  }
}

TEST(DTypeNamesTest, V2Spellings) {
  EXPECT_EQ(DTypeToV2({DType::kBool, Endian::kLittle}), "|b1");
  EXPECT_EQ(DTypeToV2({DType::kComplex128, Endian::kBig}), ">c16");
  EXPECT_EQ(DTypeToV2({DType::kInt4, Endian::kLittle}), "int4");
  EXPECT_EQ(DTypeFromV2(">f4"), (StoredDType{DType::kFloat32, Endian::kBig}));
  EXPECT_EQ(DTypeFromV2(">i1"), (StoredDType{DType::kInt8, Endian::kLittle}));
  EXPECT_EQ(DTypeFromV2("<b1"), (StoredDType{DType::kBool, Endian::kLittle}));
}

TEST(DTypeNamesTest, Refused) {
  for (const char* text : {"", "i4", "=i4", "|i4", "<f1", "<f16", "<i16", "<U2",
                           "|V4", "<M8[ns]", "float32", "uint4", "<", "<i4 "}) {
    EXPECT_EQ(DTypeFromV2(text), std::nullopt) << text;
  }
  for (const char* text : {"", "<i4", "uint2", "uint4", "float999", "r16"}) {
    EXPECT_EQ(DTypeFromV3(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace holdfast::zarr
