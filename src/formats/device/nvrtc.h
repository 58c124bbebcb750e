// NVRTC, NVIDIA's compiler for kernels, loaded when it is first asked for.
//
// It comes with CUDA's toolkit, and with torch and jax as a Python package
// (nvidia-cuda-nvrtc). A program without it decodes and sums on the host.
//
// Thread-safety: any thread. Ownership: the library stays loaded. Units: bytes.
// Errors: FailedPrecondition (no library, one that is too old, or one that
// lacks its other files), InvalidArgument (a text that does not compile, with
// the compiler's log). Formats: the functions of nvrtc.h 11.2 to 13
// (https://docs.nvidia.com/cuda/nvrtc).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// A text, and the one file that it may include.
struct DeviceSource {
  std::string_view name;
  std::string_view text;
  std::string_view included_name;
  std::string_view included_text;
};

class Nvrtc {
 public:
  virtual ~Nvrtc() = default;

  // Returns what DeviceDriver::LoadKernel accepts for devices of `architecture`
  // ("compute_90"): a cubin or, for a device that is newer than the library,
  // PTX (text), which the driver compiles.
  virtual Result<std::string> Compile(const DeviceSource& source,
                                      std::string_view architecture) const = 0;
};

// Returns the library at the path that SetNvrtcPath (holdfast/device.h) was
// given, or else the first of
// libnvrtc.so.13, .12 and .11.2 that is loaded already or that the system
// finds. The same answer at each call.
Result<const Nvrtc*> LoadedNvrtc();
// Loads a library; for tests.
Result<std::unique_ptr<Nvrtc>> LoadNvrtc(const std::string& library);

}  // namespace holdfast
