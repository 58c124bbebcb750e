#include "formats/device/device_fingerprint.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "formats/device/device_test_util.h"
#include "ground/tensor/box.h"

namespace holdfast {
namespace {

std::string RandomElements(size_t byte_count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(byte_count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

FingerprintSum OnHost(DType dtype, const std::string& elements,
                      const Shape& shape, const Shape& origin,
                      const Shape& array_shape) {
  return SumOfBox({dtype, elements.data(), shape,
                   ContiguousStrides(shape, DTypeBytes(dtype))},
                  origin, array_shape);
}

void ExpectEqualSums(TestDevice& device, DType dtype, const Shape& shape,
                     const Shape& origin, const Shape& array_shape,
                     size_t offset = 0) {
  const std::string elements =
      RandomElements(ElementCount(shape) * DTypeBytes(dtype), 1);
  const auto plan = PlanDeviceFingerprint(dtype, shape, origin, array_shape);
  ASSERT_TRUE(plan.has_value());
  const FingerprintSum got = device.Sum(*plan, elements, offset);
  EXPECT_EQ(FingerprintHex(got),
            FingerprintHex(OnHost(dtype, elements, shape, origin, array_shape)))
      << DTypeName(dtype) << " " << BoxToString({origin, shape});
}

TEST(DeviceFingerprintTest, EachDType) {
  TestDevice device;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const int64_t count : {0, 1, 2, 3, 5, 255, 1023, 1025, 4097, 20000}) {
      ExpectEqualSums(device, dtype, {count}, {}, {count});
    }
  }
}

TEST(DeviceFingerprintTest, ElementsAtAnyAddress) {
  TestDevice device;
  for (const size_t offset : {1, 2, 3, 4, 6, 7}) {
    for (const int64_t count : {1, 3, 9, 4095, 9001}) {
      ExpectEqualSums(device, DType::kUint8, {count}, {}, {count}, offset);
      ExpectEqualSums(device, DType::kBfloat16, {count}, {}, {count}, offset);
    }
  }
}

TEST(DeviceFingerprintTest, PartsOfArrays) {
  TestDevice device;
  ExpectEqualSums(device, DType::kFloat32, {}, {}, {});
  ExpectEqualSums(device, DType::kFloat32, {100, 64}, {17, 0}, {200, 64});
  ExpectEqualSums(device, DType::kBfloat16, {100, 33}, {17, 31}, {200, 64});
  ExpectEqualSums(device, DType::kUint8, {100, 33}, {17, 31}, {200, 65});
  ExpectEqualSums(device, DType::kUint8, {50, 1}, {0, 7}, {50, 9});
  ExpectEqualSums(device, DType::kBool, {3, 5, 4, 2}, {1, 2, 3, 4},
                  {7, 9, 8, 7});
  ExpectEqualSums(device, DType::kInt4, {2, 3, 2, 3, 5}, {1, 0, 1, 2, 3},
                  {4, 5, 6, 7, 9});
  ExpectEqualSums(device, DType::kFloat64, {2, 1, 3, 4096}, {5, 6, 0, 100},
                  {8, 9, 3, 5000});
  ExpectEqualSums(device, DType::kInt16, {4, 8, 3}, {3, 0, 1}, {10, 8, 5});
}

TEST(DeviceFingerprintTest, PartsAddUp) {
  TestDevice device;
  const Shape shape{40, 301};
  const std::string elements = RandomElements(40 * 301 * 2, 3);
  const FingerprintSum whole =
      OnHost(DType::kFloat16, elements, shape, {}, shape);
  FingerprintSum total;
  for (int64_t first = 0; first < 40; first += 8) {
    const std::string part = elements.substr(first * 301 * 2, 8 * 301 * 2);
    const auto plan =
        PlanDeviceFingerprint(DType::kFloat16, {8, 301}, {first, 0}, shape);
    ASSERT_TRUE(plan.has_value());
    total += device.Sum(*plan, part);
  }
  EXPECT_EQ(total, whole);
}

TEST(DeviceFingerprintTest, MoreGapsThanTheKernelKnowsAreForTheHost) {
  const Shape shape(6, 2);
  EXPECT_FALSE(PlanDeviceFingerprint(DType::kInt8, shape, {}, Shape(6, 3)));
  TestDevice device;
  ExpectEqualSums(device, DType::kInt8, Shape(5, 2), {}, Shape(5, 3));
  // Axes that are evenly spaced in the array are one.
  ExpectEqualSums(device, DType::kInt8, shape, {}, {2, 2, 2, 2, 2, 3});
}

TEST(DeviceFingerprintTest, AsManySumsAsADeviceNeeds) {
  const auto sum_count = [](int64_t count) {
    return PlanDeviceFingerprint(DType::kInt8, {count}, {}, {count})->sum_count;
  };
  EXPECT_EQ(sum_count(0), 0);
  EXPECT_EQ(sum_count(1), 2);
  EXPECT_EQ(sum_count(5 << 12), 6);
  EXPECT_EQ(sum_count(int64_t{1} << 40), 1024);
}

}  // namespace
}  // namespace holdfast
