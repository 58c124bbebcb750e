#include "cli/element_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

namespace holdfast::cli {
namespace {

double Value(DType dtype, uint64_t bits) {
  char bytes[8];
  std::memcpy(bytes, &bits, sizeof(bits));
  return FloatValue(dtype, bytes);
}

struct SmallFloatCase {
  DType dtype;
  uint64_t bits;
  double want;
};

// The values are from the formats' definitions.
TEST(FloatValue, KnowsTheSmallFormats) {
  const double inf = INFINITY;
  const SmallFloatCase cases[] = {
      {DType::kFloat16, 0x3c00, 1.0},
      {DType::kFloat16, 0xc000, -2.0},
      {DType::kFloat16, 0x0001, 0x1p-24},
      {DType::kFloat16, 0x7bff, 65504},
      {DType::kFloat16, 0x7c00, inf},
      {DType::kFloat16, 0x7e00, NAN},
      {DType::kBfloat16, 0x3f80, 1.0},
      {DType::kBfloat16, 0x4049, 3.140625},
      {DType::kBfloat16, 0xff80, -inf},
      {DType::kBfloat16, 0x0001, 0x1p-133},
      {DType::kFloat8E4m3fn, 0x38, 1.0},
      {DType::kFloat8E4m3fn, 0x7e, 448},
      {DType::kFloat8E4m3fn, 0x7f, NAN},
      {DType::kFloat8E4m3fn, 0x01, 0x1p-9},
      {DType::kFloat8E4m3fnuz, 0x7f, 240},
      {DType::kFloat8E4m3fnuz, 0x80, NAN},
      {DType::kFloat8E4m3b11fnuz, 0x7f, 30},
      {DType::kFloat8E4m3b11fnuz, 0x80, NAN},
      {DType::kFloat8E5m2, 0x7b, 57344},
      {DType::kFloat8E5m2, 0x7c, inf},
      {DType::kFloat8E5m2fnuz, 0x7f, 57344},
      {DType::kFloat8E5m2fnuz, 0x80, NAN},
      {DType::kFloat8E3m4, 0x6f, 15.5},
      {DType::kFloat8E3m4, 0x70, inf},
      {DType::kFloat8E3m4, 0x71, NAN},
      {DType::kFloat8E8m0fnu, 0x7f, 1.0},
      {DType::kFloat8E8m0fnu, 0x00, 0x1p-127},
      {DType::kFloat8E8m0fnu, 0xff, NAN},
      {DType::kFloat4E2m1fn, 0x7, 6.0},
      {DType::kFloat4E2m1fn, 0x9, -0.5},
      // The unused high bits are ignored.
      {DType::kFloat4E2m1fn, 0xf1, 0.5},
  };
  for (const SmallFloatCase& c : cases) {
    const double got = Value(c.dtype, c.bits);
    if (std::isnan(c.want)) {
      EXPECT_TRUE(std::isnan(got)) << DTypeName(c.dtype) << " " << c.bits;
    } else {
      EXPECT_EQ(got, c.want) << DTypeName(c.dtype) << " " << c.bits;
    }
  }
}

TEST(IntegerValues, ExtendTheSignOfSubBytes) {
  const char bytes[] = {'\x0f', '\x00', '\x03'};
  EXPECT_EQ(SignedValue(DType::kInt4, &bytes[0]), -1);
  EXPECT_EQ(UnsignedValue(DType::kUint4, &bytes[0]), 15u);
  EXPECT_EQ(SignedValue(DType::kInt2, &bytes[2]), -1);
  EXPECT_EQ(SignedValue(DType::kInt8, "\x80"), -128);
  EXPECT_EQ(UnsignedValue(DType::kUint64, "\xff\xff\xff\xff\xff\xff\xff\xff"),
            UINT64_MAX);
}

template <typename T>
std::string Text(DType dtype, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  return ElementText(dtype, bytes);
}

TEST(ElementText, PrintsAsPythonDoes) {
  EXPECT_EQ(Text(DType::kFloat32, 0.1f), "0.1");
  EXPECT_EQ(Text(DType::kFloat64, 2.0), "2.0");
  EXPECT_EQ(Text(DType::kFloat64, 1e16), "1e+16");
  EXPECT_EQ(Text(DType::kFloat64, 1e15), "1000000000000000.0");
  EXPECT_EQ(Text(DType::kFloat64, 1e-5), "1e-05");
  EXPECT_EQ(Text(DType::kFloat64, -0.0), "-0.0");
  EXPECT_EQ(Text(DType::kFloat64, std::nan("")), "nan");
  EXPECT_EQ(Text(DType::kFloat64, double{-INFINITY}), "-inf");
  EXPECT_EQ(Text(DType::kBool, char{1}), "True");
  EXPECT_EQ(Text(DType::kInt64, INT64_MIN), "-9223372036854775808");
  const float complex[] = {1, -2.5};
  EXPECT_EQ(
      ElementText(DType::kComplex64, reinterpret_cast<const char*>(complex)),
      "(1-2.5j)");
}

// Printed text is parsed back to the same float, bit for bit.
TEST(FloatDigits, RoundTripsRandomFloats) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20000; ++round) {
    const auto bits = static_cast<uint32_t>(random());
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    for (const bool scientific : {false, true}) {
      const std::string text = FloatDigits(DType::kFloat32, value, scientific);
      EXPECT_EQ(std::strtof(text.c_str(), nullptr), value) << text;
      EXPECT_NE(text.find('.'), std::string::npos) << text;
    }
  }
  EXPECT_EQ(FloatDigits(DType::kFloat32, 1.0, false), "1.");
  EXPECT_EQ(FloatDigits(DType::kFloat32, 1.0, true), "1.e+00");
  EXPECT_EQ(FloatDigits(DType::kFloat32, 0.1f, false), "0.1");
}

TEST(WriteElement, IsJson) {
  std::ostringstream out;
  JsonWriter json(out);
  const double complex[] = {0, NAN};
  json.BeginArray();
  WriteElement(DType::kComplex128, reinterpret_cast<const char*>(complex),
               &json);
  WriteElement(DType::kBool, "\0", &json);
  WriteElement(DType::kInt8, "\xff", &json);
  json.EndArray();
  EXPECT_EQ(out.str(), R"([[0.0, "NaN"], false, -1])");
}

}  // namespace
}  // namespace holdfast::cli
