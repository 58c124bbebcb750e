#include "formats/zarr/format/fill_value.h"

#include <gtest/gtest.h>

namespace holdfast::zarr {
namespace {

std::string Hex(const std::string& element) {
  std::string text;
  for (size_t i = element.size(); i-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<uint8_t>(element[i]));
    text += digits;
  }
  return text;
}

struct FillCase {
  DType dtype;
  int zarr_format;
  const char* json;
  const char* bits;     // hex, most significant first
  const char* written;  // null: same as `json`
};

// Bits as TensorStore stores them for the same fill value.
constexpr FillCase kFills[] = {
    {DType::kBool, 2, "true", "01", nullptr},
    {DType::kInt8, 2, "-7", "f9", nullptr},
    {DType::kInt32, 3, "7.0", "00000007", "7"},
    {DType::kUint64, 3, "18446744073709551615", "ffffffffffffffff", nullptr},
    {DType::kInt64, 2, "-9223372036854775808", "8000000000000000", nullptr},
    {DType::kInt4, 2, "9", "09", "-7"},
    {DType::kInt4, 3, "-8", "08", nullptr},
    {DType::kInt2, 2, "127", "03", "-1"},
    {DType::kFloat32, 2, "\"NaN\"", "7fc00000", nullptr},
    {DType::kFloat32, 3, "\"NaN\"", "7fc00000", nullptr},
    {DType::kFloat32, 3, "\"0x7FC00001\"", "7fc00001", "\"0x7fc00001\""},
    {DType::kFloat32, 3, "\"0x1\"", "00000001", "1.401298464324817e-45"},
    {DType::kFloat32, 2, "\"1.5\"", "3fc00000", "1.5"},
    {DType::kFloat32, 2, "\"+.5\"", "3f000000", "0.5"},
    {DType::kFloat32, 2, "-0.0", "80000000", nullptr},
    {DType::kFloat32, 3, "0.1", "3dcccccd", "0.10000000149011612"},
    {DType::kFloat32, 3, "1e39", "7f800000", "\"Infinity\""},
    {DType::kFloat16, 3, "\"NaN\"", "7e00", nullptr},
    {DType::kFloat16, 3, "65520.0", "7c00", "\"Infinity\""},
    {DType::kBfloat16, 3, "\"NaN\"", "7fc0", nullptr},
    {DType::kBfloat16, 3, "0.1", "3dcd", "0.10009765625"},
    {DType::kFloat64, 3, "\"NaN\"", "7ff8000000000000", nullptr},
    {DType::kFloat64, 3, "1.5e-05", "3eef75104d551d69", nullptr},
    {DType::kFloat8E4m3fn, 3, "\"NaN\"", "7f", nullptr},
    {DType::kFloat8E4m3fn, 3, "\"0xff\"", "ff", nullptr},
    {DType::kFloat8E4m3fn, 2, "\"Infinity\"", "7f", "\"NaN\""},
    {DType::kFloat8E4m3fnuz, 3, "\"NaN\"", "80", nullptr},
    {DType::kFloat8E5m2, 3, "1e9", "7c", "\"Infinity\""},
    {DType::kFloat8E3m4, 3, "0.3", "13", "0.296875"},
    {DType::kFloat8E8m0fnu, 3, "0.0", "00", nullptr},
    {DType::kFloat4E2m1fn, 2, "\"Bg==\"", "06", nullptr},
    {DType::kFloat4E2m1fn, 3, "1e9", "07", "6.0"},
    {DType::kFloat4E2m1fn, 3, "\"0x18\"", "08", "-0.0"},
    {DType::kComplex64, 2, "[1.5,\"NaN\"]", "7fc000003fc00000", nullptr},
    {DType::kComplex64, 3, "[1.0,\"0x7fc00001\"]", "7fc000013f800000", nullptr},
};

TEST(FillValueTest, BitsAndText) {
  for (const FillCase& fill : kFills) {
    SCOPED_TRACE(std::string(DTypeName(fill.dtype)) + " " + fill.json);
    const Json json = Json::parse(fill.json);
    const auto element = ParseFill(fill.dtype, &json, fill.zarr_format);
    ASSERT_TRUE(element.ok()) << element.status().ToString();
    EXPECT_EQ(Hex(*element), fill.bits);
    EXPECT_EQ(FillToJson(fill.dtype, *element, fill.zarr_format).dump(),
              fill.written == nullptr ? fill.json : fill.written);
  }
}

struct BadFillCase {
  DType dtype;
  int zarr_format;
  const char* json;
  const char* message;
};

constexpr BadFillCase kBadFills[] = {
    {DType::kBool, 2, "0", "Expected boolean, but received: 0"},
    {DType::kInt8, 3, "128",
     "Expected integer in the range [-128, 127], but received: 128"},
    {DType::kUint8, 3, "-1",
     "Expected integer in the range [0, 255], but received: -1"},
    {DType::kInt4, 3, "9",
     "Expected integer in the range [-8, 7], but received: 9"},
    {DType::kInt2, 2, "128",
     "Expected integer in the range [-128, 127], but received: 128"},
    {DType::kUint64, 3, "1.5",
     "Expected integer in the range [0, 18446744073709551615], but received: "
     "1.5"},
    {DType::kFloat32, 2, "\"nan\"", "Invalid floating-point value: \"nan\""},
    {DType::kFloat32, 2, "\"1e400\"",
     "Invalid floating-point value: \"1e400\""},
    {DType::kFloat32, 2, "\"\"", "Invalid floating-point value: \"\""},
    {DType::kFloat32, 2, "\"0x10\"", "Invalid floating-point value: \"0x10\""},
    {DType::kFloat32, 3, "null",
     "Expected floating-point number, but received: null"},
    {DType::kFloat32, 3, "\"1.5\"",
     "Expected \"Infinity\", \"-Infinity\", \"NaN\", or hex string, but "
     "received: \"1.5\""},
    {DType::kFloat16, 3, "\"0x00001\"",
     "Expected \"Infinity\", \"-Infinity\", \"NaN\", or hex string, but "
     "received: \"0x00001\""},
    {DType::kFloat4E2m1fn, 2, "1.5",
     "Expected 1 base64-encoded bytes, but received: 1.5"},
    {DType::kComplex64, 3, "[1]",
     "Array has length 1 but should have length 2"},
};

TEST(FillValueTest, Refused) {
  for (const BadFillCase& fill : kBadFills) {
    SCOPED_TRACE(std::string(DTypeName(fill.dtype)) + " " + fill.json);
    const Json json = Json::parse(fill.json);
    const auto element = ParseFill(fill.dtype, &json, fill.zarr_format);
    EXPECT_EQ(element.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(element.status().message(), fill.message);
  }
}

// Every bit pattern of every narrow type survives v3's text, except the odd
// values that doc/zarr.md lists.
TEST(FillValueTest, EveryNarrowPatternSurvivesV3) {
  for (DType dtype :
       {DType::kFloat8E3m4, DType::kFloat8E4m3fn, DType::kFloat8E4m3fnuz,
        DType::kFloat8E4m3b11fnuz, DType::kFloat8E5m2, DType::kFloat8E5m2fnuz,
        DType::kFloat16, DType::kBfloat16, DType::kInt8}) {
    const int bit_count = DTypeBits(dtype);
    for (uint32_t bits = 0; bits < uint32_t{1} << bit_count; ++bits) {
      const std::string element(reinterpret_cast<const char*>(&bits),
                                DTypeBytes(dtype));
      const Json json = Json::parse(FillToJson(dtype, element, 3).dump());
      const auto parsed = ParseFill(dtype, &json, 3);
      ASSERT_TRUE(parsed.ok()) << DTypeName(dtype) << " " << bits;
      ASSERT_EQ(*parsed, element) << DTypeName(dtype) << " " << json.dump();
    }
  }
}

}  // namespace
}  // namespace holdfast::zarr
