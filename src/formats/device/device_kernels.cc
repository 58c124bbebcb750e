#include "formats/device/device_kernels.h"

#include <cassert>
#include <utility>
#include <vector>

#include "formats/device/kernel_source.h"
#include "formats/device/nvrtc.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

KernelArgument Address(DeviceAddress address) { return {address, true}; }
KernelArgument Number(uint64_t number) { return {number, false}; }

[[maybe_unused]] bool IsAligned(DeviceAddress address) {
  return address % 16 == 0;
}

}  // namespace

Result<std::string> CompileDeviceKernels(std::string_view architecture) {
  HF_ASSIGN_OR_RETURN(const Nvrtc* const nvrtc, LoadedNvrtc());
  return nvrtc->Compile(KernelSource(), architecture);
}

Result<std::unique_ptr<const DeviceKernels>> DeviceKernels::Load(
    DeviceDriver& driver, int device, const std::string& image) {
  std::unique_ptr<DeviceKernels> kernels(new DeviceKernels(driver, device));
  for (const auto& [kernel, name] :
       {std::pair(&kernels->expand_pieces_, "holdfast_expand_pieces"),
        std::pair(&kernels->check_frames_, "holdfast_check_frames"),
        std::pair(&kernels->join_planes_, "holdfast_join_planes"),
        std::pair(&kernels->sum_box_, "holdfast_sum_box")}) {
    HF_ASSIGN_OR_RETURN(*kernel, driver.LoadKernel(device, image, name));
  }
  return std::unique_ptr<const DeviceKernels>(std::move(kernels));
}

Status DeviceKernels::DecodePlanes(const DevicePlanesPlan& plan,
                                   const DevicePlanesMemory& memory,
                                   DeviceStream stream) const {
  assert(IsAligned(memory.encoded) && IsAligned(memory.work));
  assert(memory.encoded_bytes >= plan.encoded_bytes());
  assert(memory.elements_bytes >= plan.elements_bytes());
  if (plan.frame_count() == 0) return Status();
  const auto work = [&](uint64_t at) { return Address(memory.work + at); };
  const KernelArgument scratch = work(plan.scratch_at());
  const KernelArgument scratch_bytes = Number(plan.scratch_bytes());
  if (plan.piece_count() > 0) {
    const KernelArgument arguments[] = {Address(memory.encoded),
                                        Number(memory.encoded_bytes),
                                        work(0),
                                        work(plan.trees_at()),
                                        scratch,
                                        scratch_bytes,
                                        work(plan.results_at())};
    HF_RETURN_IF_ERROR(driver_.Launch(device_, expand_pieces_,
                                      {plan.piece_count(), kBlockThreads},
                                      arguments, stream));
  }
  if (plan.checks_frames()) {
    const KernelArgument arguments[] = {
        scratch, scratch_bytes, work(plan.frames_at()),
        work(plan.results_at() + plan.piece_count() * sizeof(uint32_t))};
    HF_RETURN_IF_ERROR(driver_.Launch(device_, check_frames_,
                                      {plan.frame_count(), kLaneCount},
                                      arguments, stream));
  }
  const KernelArgument arguments[] = {scratch,
                                      scratch_bytes,
                                      work(plan.frames_at()),
                                      Number(plan.tile_count()),
                                      Address(memory.elements),
                                      Number(memory.elements_bytes)};
  return driver_.Launch(device_, join_planes_,
                        {plan.frame_count() * plan.tile_count(), kBlockThreads},
                        arguments, stream);
}

Status DeviceKernels::SumBox(const DeviceFingerprintPlan& plan,
                             DeviceAddress elements, DeviceAddress sums,
                             DeviceStream stream) const {
  assert(IsAligned(sums));
  if (plan.sum_count == 0) return Status();
  const DeviceBox& box = plan.box;
  const KernelArgument arguments[] = {
      Address(elements),     Number(plan.byte_count), Address(sums),
      Number(box.array_at),  Number(box.row_bytes),   Number(box.row_count),
      Number(box.counts[0]), Number(box.counts[1]),   Number(box.counts[2]),
      Number(box.counts[3]), Number(box.steps[0]),    Number(box.steps[1]),
      Number(box.steps[2]),  Number(box.steps[3]),    Number(box.rule),
      Number(box.mask)};
  return driver_.Launch(device_, sum_box_, {plan.sum_count, kBlockThreads},
                        arguments, stream);
}

}  // namespace holdfast
