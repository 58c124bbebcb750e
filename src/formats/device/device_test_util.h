// A device on which tests decode and sum.
// Thread-safety: one thread. Units: bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/device/device_kernels.h"
#include "twins/host_kernels.h"
#include "twins/device_twin.h"

namespace holdfast {

class TestDevice {
 public:
  TestDevice() {
    AddDeviceKernels(twin_);
    kernels_ = DeviceKernels::Load(twin_, 0, "").value();
  }
  ~TestDevice() { EXPECT_TRUE(twin_.violations().empty()); }

  // Decodes the plan's containers. `elements_offset` moves the elements from
  // where the device's allocations begin. `change` may change the tables.
  std::string Decode(const DevicePlanesPlan& plan, std::string_view encoded,
                     size_t elements_offset = 0,
                     const std::function<void(char*)>& change = nullptr) {
    std::string work(plan.work_bytes(), '\xcc');
    plan.WriteTables(work.data());
    if (change) change(work.data());
    const DeviceAddress encoded_at = twin_.Allocate(0, encoded);
    const DeviceAddress work_at = twin_.Allocate(0, work);
    const DeviceAddress elements_at = twin_.Allocate(
        0, std::string(elements_offset + plan.elements_bytes() + 1, '\xcc'));
    DevicePlanesMemory memory;
    memory.encoded = encoded_at;
    memory.encoded_bytes = encoded.size();
    memory.work = work_at;
    memory.elements = elements_at + elements_offset;
    memory.elements_bytes = plan.elements_bytes();
    const Status status = kernels_->DecodePlanes(plan, memory, 0);
    EXPECT_TRUE(status.ok()) << status.ToString();
    twin_.RunAll();
    results_.resize(plan.result_count());
    const std::string words = twin_.Read(work_at + plan.results_at(),
                                         results_.size() * sizeof(uint32_t));
    if (!words.empty())
      std::memcpy(results_.data(), words.data(), words.size());
    std::string elements =
        twin_.Read(elements_at + elements_offset, plan.elements_bytes());
    for (const DeviceAddress address : {encoded_at, work_at, elements_at}) {
      twin_.Free(address);
    }
    return elements;
  }
  // Returns the words that the last Decode wrote.
  const std::vector<uint32_t>& results() const { return results_; }

  FingerprintSum Sum(const DeviceFingerprintPlan& plan,
                     std::string_view elements, size_t offset = 0) {
    std::vector<DeviceSum> sums(plan.sum_count);
    const DeviceAddress elements_at =
        twin_.Allocate(0, std::string(offset, '\xee') + std::string(elements));
    const DeviceAddress sums_at = twin_.Allocate(
        0, std::string(sums.size() * sizeof(DeviceSum) + 1, '\xee'));
    const Status status =
        kernels_->SumBox(plan, elements_at + offset, sums_at, 0);
    EXPECT_TRUE(status.ok()) << status.ToString();
    twin_.RunAll();
    const std::string bytes =
        twin_.Read(sums_at, sums.size() * sizeof(DeviceSum));
    if (!bytes.empty()) std::memcpy(sums.data(), bytes.data(), bytes.size());
    twin_.Free(elements_at);
    twin_.Free(sums_at);
    return AddDeviceSums(sums);
  }

 private:
  DeviceTwin twin_;
  std::unique_ptr<const DeviceKernels> kernels_;
  std::vector<uint32_t> results_;
};

}  // namespace holdfast
