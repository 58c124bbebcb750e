// Leaves whose elements are in the memory of a device (a GPU).
//
// A save copies such a leaf's chunks through a few page-locked buffers, at most
// 1 GiB and a tenth of the host's memory, and encodes some while others are
// copied. It needs no host memory for the whole array. Copies wait for the work
// that the program had queued when the leaf was made, and for nothing else; the
// program's own streams never wait for copies.
//
// Thread-safety: any thread. Ownership: a leaf shares the array's owner; its
// elements must not be changed or freed until the save has ended.
// Units: bytes for strides. Errors: FailedPrecondition (no CUDA driver, one
// that is too old, or a process that was forked after CUDA had begun),
// InvalidArgument (memory that is on no device, or an array beyond the memory
// that was allocated for it), Unavailable (the device failed); a save returns
// the same, ResourceExhausted, and DeadlineExceeded if the device does not
// finish a copy in 10 minutes.
#pragma once

#include <cstdint>
#include <memory>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

struct DeviceArray {
  DType dtype = DType::kUint8;
  Shape shape;
  Shape strides;         // same rank as shape; C order if empty
  uint64_t address = 0;  // of the first element, as a CUdeviceptr
  // The program's stream (a CUstream) on which the elements were last written;
  // 0 for the default stream.
  uint64_t stream = 0;
  std::shared_ptr<const void> owner;  // keeps the memory; may be null
};

// Makes a leaf for Save and for all other calls that write checkpoints.
Result<Tree> DeviceLeaf(DeviceArray array, ArrayKind kind = ArrayKind::kNumpy,
                        std::shared_ptr<const ArrayTraits> traits = {});

}  // namespace holdfast
