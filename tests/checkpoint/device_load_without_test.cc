// Loads into the memory of devices that use no device.
#include <memory>
#include <vector>

#include "engine/device/device_loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "holdfast/checkpoint.h"
#include "holdfast/device.h"
#include "twins/device_twin.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

class DeviceLoadsWithoutDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<float> values(20, 0.5F);
    const Tree tree = Tree::Dict({{"w", Tree(*Array::Of(values, {4, 5}))}});
    ASSERT_TRUE(Save(scratch_ / "7", tree).ok());
    auto opened = Open(scratch_ / "7");
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    checkpoint_ = *std::move(opened);
  }

  const ScratchDirectory scratch_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(DeviceLoadsWithoutDevices, SaySo) {
  DeviceReadRequest request{0, {0, 0}, {DType::kFloat32, {4, 5}, {}, 4096}};
  // Where there is a driver, the address is not one of its own.
  EXPECT_THAT(ReadIntoDevices(*checkpoint_, {request}).status().code(),
              ::testing::AnyOf(StatusCode::kFailedPrecondition,
                               StatusCode::kInvalidArgument));
}

TEST_F(DeviceLoadsWithoutDevices, OfNoElementsNeedNone) {
  DeviceTwin twin;
  DeviceLoader loader(twin, {});
  DeviceReadRequest request{0, {3, 0}, {DType::kInt8, {0, 5}, {}}};
  for (const auto& requests : {std::vector<DeviceReadRequest>{}, {request}}) {
    const auto loaded = loader.Read(*checkpoint_, requests, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_EQ(loaded->decoded_bytes, 0u);
  }
  EXPECT_EQ(twin.call_count(), 0);
}

}  // namespace
}  // namespace holdfast
