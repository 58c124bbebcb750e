// Leaves whose elements are in the memory of a device (a GPU).
//
// A save copies such a leaf's chunks through a few page-locked buffers (for all
// devices at most 1 GiB, and a tenth of the memory that the process may use),
// and encodes some while others are copied. It needs no host memory for the
// whole array. It waits for the work that the program had queued on the array's
// stream when the leaf was made, and for nothing else; the program's own
// streams never wait for copies.
//
// Thread-safety: any thread. Ownership: a leaf shares the array's owner, and
// keeps it until the last copy has ended. The elements must not be changed
// until the save has ended; an asynchronous save of holdfast/orbax copies them
// before it returns.
// Units: bytes for strides. Errors: FailedPrecondition (no CUDA driver, one
// that is too old, a process that was forked after CUDA had begun, or a stream
// that is being captured into a graph), InvalidArgument (memory that is on no
// device, an array beyond the driver's allocation, or a stream of another
// device), Unavailable (the device failed); a save returns the same,
// ResourceExhausted, and DeadlineExceeded if the device does not finish a copy
// in 10 minutes.
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
  // 0 for the legacy default stream, 2 for the calling thread's. Other streams
  // are not waited for.
  uint64_t stream = 0;
  std::shared_ptr<const void> owner;  // keeps the memory; may be null
};

// Makes a leaf for Save and for all other calls that write checkpoints.
Result<Tree> DeviceLeaf(DeviceArray array, ArrayKind kind = ArrayKind::kNumpy,
                        std::shared_ptr<const ArrayTraits> traits = {});

}  // namespace holdfast
