// Arrays whose elements are in the memory of a device (a GPU): saves of them,
// and loads into them.
//
// A save copies such a leaf's chunks through a few page-locked buffers, and
// encodes some while others are copied. It needs no host memory for the whole
// array. It waits for the work that the program had queued on the array's
// stream when the leaf was made, and for nothing else; the program's own
// streams never wait for copies.
//
// A load reads into a few page-locked buffers, and copies some to the devices
// while it fills others. The buffers of all saves and loads of a process take
// at most 1 GiB, and a tenth of the memory that it may use.
//
// Thread-safety: any thread. Ownership: a leaf shares the array's owner, and
// keeps it until the last copy has ended. The elements must not be changed
// until the save has ended; an asynchronous save of holdfast/orbax copies them
// before it returns.
// Units: bytes for strides. Errors: FailedPrecondition (no CUDA driver, one
// that is too old, a process that was forked after CUDA had begun, or a stream
// that is being captured into a graph), InvalidArgument (memory that is on no
// device, an array beyond the driver's allocation, or a stream of another
// device), Unavailable (the device failed); saves and loads return the same,
// ResourceExhausted, and DeadlineExceeded if the device does not finish a copy
// in 10 minutes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

struct DeviceArray {
  DType dtype = DType::kUint8;
  Shape shape;
  Shape strides;         // same rank as shape; C order if empty
  uint64_t address = 0;  // of the first element, as a CUdeviceptr
  // The program's stream (a CUstream) on which the elements were last written,
  // or the memory was last used; 0 for the legacy default stream, 2 for the
  // calling thread's. Other streams are not waited for.
  uint64_t stream = 0;
  std::shared_ptr<const void> owner;  // keeps the memory; may be null
};

// Returns ok if this process can use devices; otherwise FailedPrecondition, and
// why not.
Status CheckDeviceDriver();

// Returns a reader of the array's elements, for Tree::DeferredArray and
// ArrayShard. REQUIRES: the array has elements.
Result<std::shared_ptr<const ArrayReader>> MakeDeviceReader(DeviceArray array);

// Makes a leaf for Save and for all other calls that write checkpoints.
Result<Tree> DeviceLeaf(DeviceArray array, ArrayKind kind = ArrayKind::kNumpy,
                        std::shared_ptr<const ArrayTraits> traits = {});

// A part of one leaf, and the memory of a device that receives its elements.
struct DeviceReadRequest {
  size_t leaf = 0;  // index into leaves(); an array or scalar
  Shape origin;     // in the leaf
  // Its shape is that of the box to read. Elements are cast to its dtype, as
  // ReadInto casts. No dimension may repeat its elements (stride 0). After a
  // failure its elements are unspecified.
  DeviceArray target;
};

// Checkpoint::ReadInto, with its checks and errors, into the memory of devices,
// of which there may be several. A box that several requests want in one dtype
// is read once, crosses the bus once, and is copied from the first target to
// the others.
//
// Begins to write into a target when the work that the program had queued on
// the target's stream before the call has ended. When the call returns, all
// copies have ended, also after an error, and work on any stream sees the
// elements. If the device cannot tell that they have, the error says so, and
// the owners of the targets are kept.
//
// With OpenOptions::fingerprints, complete arrays in their stored dtype are
// checked: by the device, in its memory, after all copies have ended, if the
// elements are in C order without gaps and the device can (NVRTC is there, and
// 256 KiB are free); otherwise on the host, before they are copied. A
// difference is DataLoss, with the device if that found it.
//
// Takes page-locked memory of at most 1 GiB, a tenth of the host's memory, and
// run.memory_bytes (but at least 1 MiB); small loads take little. It is
// kept for later loads. A chunk that is larger than a buffer is held in
// ordinary memory, together with others as far as run.memory_bytes
// allows.
Result<Stats> ReadIntoDevices(const Checkpoint& checkpoint,
                              const std::vector<DeviceReadRequest>& requests,
                              const RunOptions& run = {});

// Makes holdfast look for NVRTC, NVIDIA's compiler for kernels, at `path`
// before it looks where the system does. Call it before the first load.
void SetNvrtcPath(const std::string& path);

}  // namespace holdfast
