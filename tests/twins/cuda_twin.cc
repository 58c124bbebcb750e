#include "twins/cuda_twin.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ground/device/cuda_abi.h"
#include "twins/device_twin.h"

namespace holdfast::cuda {

struct CuContextImpl {
  int device = 0;
  bool is_retained = false;
};
struct CuModuleImpl {
  int device = 0;
};

namespace {

constexpr CuResult kInvalidDevice = 101;
constexpr CuResult kInvalidContext = 201;
constexpr CuResult kIllegalAddress = 700;
constexpr CuResult kLaunchFailed = 719;
constexpr CuResult kCaptureUnsupported = 900;
constexpr CuResult kCaptureInvalidated = 901;
constexpr CuResult kCapturedEvent = 907;
constexpr int kCaptureGlobal = 0;
constexpr int kDeviceCountMax = 64;
constexpr unsigned kBlockThreadsMax = 1024;
// The handles of the default streams; 0 is the legacy one, too.
constexpr DeviceStream kLegacyStream = 1;
constexpr DeviceStream kThreadStream = 2;

struct ErrorText {
  CuResult code;
  const char* name;
};
#define HOLDFAST_ERROR_TEXT(name, value, theirs) {value, #theirs},
constexpr ErrorText kErrorTexts[] = {
    HOLDFAST_CUDA_RESULTS(HOLDFAST_ERROR_TEXT)  //
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
    {999, "CUDA_ERROR_UNKNOWN"},
};
#undef HOLDFAST_ERROR_TEXT

thread_local std::vector<CuContext> context_stack;
thread_local int capture_mode = kCaptureGlobal;

// The state that a call needs before it does anything.
enum class Needs {
  kNothing,
  kLibrary,         // that cuInit was called, in this process
  kLibraryAndSafe,  // and that no capture forbids it
  kContext,         // a current context that has not failed
  kContextAndSafe,
};

struct Stream {
  int device = 0;
  bool waits_for_default = false;
};
struct Event {
  int device = 0;
  bool is_captured = false;
};
struct Kernel {
  int device = 0;
  int argument_count = 0;
};
struct Capture {
  DeviceStream stream = 0;
  int mode = kCaptureGlobal;
  const void* thread = nullptr;  // the address of its capture_mode
  bool is_valid = true;
};

// All state of the library. Its functions are called with the mutex held.
class Library {
 public:
  Library() {
    const char* const count = std::getenv("HOLDFAST_TWIN_DEVICES");
    Reset(count != nullptr ? std::atoi(count) : 1);
    for (int device = 0; device < kDeviceCountMax; ++device) {
      contexts_[device].device = device;
    }
  }

  void Reset(int device_count) {
    options_ = DeviceTwin::Options();
    options_.device_count = device_count;
    options_.allows_pageable = true;
    twin.SetOptions(options_);
    twin.Recover();
    init_result = 0;
    driver_version = 13000;
    lost_code = 0;
    call_count = 0;
    failing_call = 0;
    failing_function.clear();
    capture.reset();
    violations.clear();
  }

  void SetPinnedBytesMax(uint64_t byte_count) {
    options_.pinned_bytes_max = byte_count;
    twin.SetOptions(options_);
  }
  void SetDeviceBytesMax(uint64_t byte_count) {
    options_.device_bytes_max = byte_count;
    twin.SetOptions(options_);
  }

  int device_count() const { return options_.device_count; }
  CuContext ContextOf(int device) { return &contexts_[device]; }
  static int device() { return context_stack.back()->device; }

  // Counts the call; returns what it returns instead of doing its work.
  CuResult Enter(std::string_view function, Needs needs) {
    ++call_count;
    if (call_count == failing_call) return failing_code;
    if (function == failing_function) {
      failing_function.clear();
      return failing_function_code;
    }
    if (needs == Needs::kNothing) return kSuccess;
    if (process == 0 || process != ::getpid()) return kNotInitialized;
    if (needs == Needs::kLibrary) return kSuccess;
    if (needs != Needs::kLibraryAndSafe) {
      if (context_stack.empty()) return kInvalidContext;
      if (lost_code != 0) return lost_code;
    }
    if (needs != Needs::kContext && IsForbiddenByCapture()) {
      capture->is_valid = false;
      return kCaptureUnsupported;
    }
    return kSuccess;
  }

  // Returns the twin's stream of a handle; nullopt for one that calls in the
  // current context may not use.
  std::optional<DeviceStream> StreamOf(DeviceStream handle) const {
    if (handle <= kThreadStream) return DefaultStream(handle);
    const auto at = streams.find(handle);
    if (at == streams.end() || at->second.device != device()) return {};
    return handle;
  }
  static DeviceStream DefaultStream(DeviceStream handle) {
    if (handle != kThreadStream) return 0;
    // A number that the twin gives to no other stream.
    return (uint64_t{1} << 62) | reinterpret_cast<uint64_t>(&capture_mode);
  }

  bool IsCaptured(DeviceStream handle) const {
    return capture.has_value() && capture->stream == handle;
  }
  // Whether the default stream would wait for the captured one.
  bool IsDefaultUnusable(DeviceStream handle) const {
    if (handle > kLegacyStream || !capture.has_value()) return false;
    const auto at = streams.find(capture->stream);
    return at != streams.end() && at->second.device == device() &&
           at->second.waits_for_default;
  }

  // Checks the stream of work, which must not be captured.
  CuResult CheckStream(DeviceStream handle) {
    if (!StreamOf(handle).has_value()) return kInvalidHandle;
    if (IsDefaultUnusable(handle)) {
      capture->is_valid = false;
      return kCaptureImplicit;
    }
    if (!IsCaptured(handle)) return kSuccess;
    if (!capture->is_valid) return kCaptureInvalidated;
    violations.push_back("work of the engine is captured into a graph");
    return kSuccess;
  }

  bool IsOnDevice(DeviceAddress address) {
    const auto info = twin.Describe(address);
    return info.ok() && info->home == MemoryHome::kDevice;
  }

  CuResult ResultOf(const Status& status) {
    switch (status.code()) {
      case StatusCode::kOk:
        return kSuccess;
      case StatusCode::kResourceExhausted:
        return kOutOfMemory;
      case StatusCode::kInvalidArgument:
        return kInvalidValue;
      default:  // A copy failed; the context has failed with it.
        return lost_code = kIllegalAddress;
    }
  }

  std::vector<std::string> AllViolations() const {
    std::vector<std::string> all = twin.violations();
    all.insert(all.end(), violations.begin(), violations.end());
    return all;
  }

  std::mutex mutex;
  DeviceTwin twin;
  ::pid_t process = 0;  // that called cuInit
  int init_result = 0;
  int driver_version = 0;
  CuResult lost_code = 0;
  int call_count = 0;
  int failing_call = 0;
  CuResult failing_code = 0;
  std::string failing_function;
  CuResult failing_function_code = 0;
  std::optional<Capture> capture;
  std::map<DeviceStream, Stream> streams;
  std::map<DeviceEvent, Event> events;
  std::map<CuModule, std::unique_ptr<CuModuleImpl>> modules;
  std::map<std::string, int> argument_counts;  // of the kernels
  std::map<DeviceKernel, Kernel> kernels;
  std::map<DeviceAddress, uint64_t> managed;  // bytes
  std::vector<std::string> violations;

 private:
  bool IsForbiddenByCapture() const {
    if (!capture.has_value() || capture_mode == kCaptureRelaxed) return false;
    const bool is_own = capture->thread == &capture_mode;
    return is_own ||
           (capture->mode == kCaptureGlobal && capture_mode == kCaptureGlobal);
  }

  DeviceTwin::Options options_;
  CuContextImpl contexts_[kDeviceCountMax];
};

// Never destroyed: the engine may make calls after main has returned.
Library& library() {
  static auto& library = *new Library();
  return library;
}

const ErrorText* TextOf(CuResult code) {
  for (const ErrorText& text : kErrorTexts) {
    if (text.code == code) return &text;
  }
  return nullptr;
}

bool IsManaged(DeviceAddress address) {
  const auto after = library().managed.upper_bound(address);
  if (after == library().managed.begin()) return false;
  const auto& [begin, byte_count] = *std::prev(after);
  return address - begin < byte_count;
}

template <typename T>
CuResult Answer(void* data, T value) {
  *static_cast<T*>(data) = value;
  return kSuccess;
}

}  // namespace
}  // namespace holdfast::cuda

using namespace holdfast;
using namespace holdfast::cuda;

#define HOLDFAST_LOCK()     \
  Library& lib = library(); \
  const std::lock_guard lock(lib.mutex)
#define HOLDFAST_ENTER(needs)                                    \
  HOLDFAST_LOCK();                                               \
  if (const CuResult code = lib.Enter(__func__, Needs::needs)) { \
    return code;                                                 \
  }

extern "C" {

// ---- CUDA's functions

TWIN_EXPORT CuResult cuInit(unsigned flags) {
  HOLDFAST_ENTER(kNothing);
  if (flags != 0) return kInvalidValue;
  if (lib.process != 0 && lib.process != ::getpid()) return kNotInitialized;
  if (lib.init_result != 0) return lib.init_result;
  if (lib.device_count() < 1) return kNoDevice;
  lib.process = ::getpid();
  return kSuccess;
}

TWIN_EXPORT CuResult cuDriverGetVersion(int* version) {
  HOLDFAST_ENTER(kNothing);
  *version = lib.driver_version;
  return kSuccess;
}

TWIN_EXPORT CuResult cuGetErrorString(CuResult code, const char** text) {
  const ErrorText* const found = TextOf(code);
  *text = found == nullptr ? nullptr : found->name;
  return found == nullptr ? kInvalidValue : kSuccess;
}

TWIN_EXPORT CuResult cuDeviceGetCount(int* count) {
  HOLDFAST_ENTER(kLibrary);
  *count = lib.device_count();
  return kSuccess;
}

TWIN_EXPORT CuResult cuDeviceGet(CuDevice* handle, int device) {
  HOLDFAST_ENTER(kLibrary);
  if (device < 0 || device >= lib.device_count()) return kInvalidDevice;
  *handle = device;
  return kSuccess;
}

TWIN_EXPORT CuResult cuDeviceGetAttribute(int* value, int attribute,
                                          CuDevice device) {
  HOLDFAST_ENTER(kLibrary);
  if (device < 0 || device >= lib.device_count()) return kInvalidDevice;
  if (attribute == kAttributeComputeMajor) return Answer(value, 9);
  if (attribute == kAttributeComputeMinor) return Answer(value, 0);
  return kInvalidValue;
}

TWIN_EXPORT CuResult cuDevicePrimaryCtxRetain(CuContext* context,
                                              CuDevice device) {
  HOLDFAST_ENTER(kLibraryAndSafe);
  if (device < 0 || device >= lib.device_count()) return kInvalidDevice;
  *context = lib.ContextOf(device);
  (*context)->is_retained = true;
  return kSuccess;
}

TWIN_EXPORT CuResult cuCtxPushCurrent_v2(CuContext context) {
  HOLDFAST_ENTER(kLibrary);
  if (context == nullptr || !context->is_retained) return kInvalidContext;
  context_stack.push_back(context);
  return kSuccess;
}

TWIN_EXPORT CuResult cuCtxPopCurrent_v2(CuContext* context) {
  HOLDFAST_LOCK();
  const CuResult code = lib.Enter(__func__, Needs::kLibrary);
  if (context_stack.empty()) return kInvalidContext;
  // Done even if the call tells of an error, which is then one of earlier work.
  if (context != nullptr) *context = context_stack.back();
  context_stack.pop_back();
  return code;
}

TWIN_EXPORT CuResult cuPointerGetAttribute(void* data, int attribute,
                                           DeviceAddress address) {
  HOLDFAST_ENTER(kLibraryAndSafe);
  const auto info = lib.twin.Describe(address);
  if (!info.ok()) return lib.ResultOf(info.status());
  if (info->home == MemoryHome::kHost) return kInvalidValue;
  const bool is_pinned = info->home == MemoryHome::kPinned;
  switch (attribute) {
    case kAttributeMemoryType:
      return Answer<unsigned>(data,
                              is_pinned ? kMemoryTypeHost : kMemoryTypeDevice);
    case kAttributeIsManaged:
      return Answer<unsigned>(data, IsManaged(address));
    case kAttributeDeviceOrdinal:
      return Answer<int>(data, is_pinned ? 0 : info->device);
    default:
      break;
  }
  if (context_stack.empty()) return kInvalidContext;
  if (lib.lost_code != 0) return lib.lost_code;
  switch (attribute) {
    case kAttributeRangeStart:
      return Answer<DeviceAddress>(data, info->begin);
    case kAttributeRangeSize:
      return Answer<size_t>(data, info->byte_count);
    default:
      return kInvalidValue;
  }
}

TWIN_EXPORT CuResult cuMemAlloc_v2(DeviceAddress* address, size_t byte_count) {
  HOLDFAST_ENTER(kContextAndSafe);
  const auto made = lib.twin.AllocateDevice(lib.device(), byte_count);
  if (!made.ok()) return lib.ResultOf(made.status());
  *address = *made;
  return kSuccess;
}

TWIN_EXPORT CuResult cuMemFree_v2(DeviceAddress address) {
  HOLDFAST_ENTER(kContextAndSafe);
  lib.twin.FreeDevice(lib.device(), address);
  return kSuccess;
}

TWIN_EXPORT CuResult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  HOLDFAST_ENTER(kContextAndSafe);
  const auto space = lib.twin.Space(lib.device());
  if (!space.ok()) return lib.ResultOf(space.status());
  *free_bytes = space->free_bytes;
  *total_bytes = space->total_bytes;
  return kSuccess;
}

TWIN_EXPORT CuResult cuMemHostAlloc(void** memory, size_t byte_count,
                                    unsigned flags) {
  HOLDFAST_ENTER(kContextAndSafe);
  if ((flags & kHostAllocPortable) == 0) {
    lib.violations.push_back("pinned memory that only one device may use");
  }
  const auto made = lib.twin.AllocatePinned(lib.device(), byte_count);
  if (!made.ok()) return lib.ResultOf(made.status());
  *memory = *made;
  return kSuccess;
}

TWIN_EXPORT CuResult cuMemFreeHost(void* memory) {
  HOLDFAST_ENTER(kContextAndSafe);
  lib.twin.FreePinned(lib.device(), static_cast<char*>(memory));
  return kSuccess;
}

TWIN_EXPORT CuResult cuStreamCreate(DeviceStream* stream, unsigned flags) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (flags > kStreamNonBlocking) return kInvalidValue;
  if (flags != kStreamNonBlocking) {
    lib.violations.push_back("a stream that waits for the default stream");
  }
  const auto made = lib.twin.CreateStream(lib.device());
  if (!made.ok()) return lib.ResultOf(made.status());
  lib.streams[*made] = {.device = lib.device()};
  *stream = *made;
  return kSuccess;
}

TWIN_EXPORT CuResult cuStreamDestroy_v2(DeviceStream stream) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (!lib.StreamOf(stream).has_value()) return kInvalidHandle;
  lib.twin.DestroyStream(lib.device(), stream);
  lib.streams.erase(stream);
  return kSuccess;
}

TWIN_EXPORT CuResult cuStreamWaitEvent(DeviceStream stream, DeviceEvent event,
                                       unsigned flags) {
  HOLDFAST_ENTER(kContext);
  if (flags != 0) return kInvalidValue;
  if (const CuResult code = lib.CheckStream(stream)) return code;
  if (!lib.events.contains(event)) return kInvalidHandle;
  return lib.ResultOf(
      lib.twin.WaitFor(lib.device(), *lib.StreamOf(stream), event));
}

TWIN_EXPORT CuResult cuThreadExchangeStreamCaptureMode(int* mode) {
  HOLDFAST_ENTER(kLibrary);
  if (*mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kInvalidValue;
  std::swap(*mode, capture_mode);
  return kSuccess;
}

TWIN_EXPORT CuResult cuStreamIsCapturing(DeviceStream stream, int* status) {
  HOLDFAST_ENTER(kContext);
  if (!lib.StreamOf(stream).has_value()) return kInvalidHandle;
  if (lib.IsDefaultUnusable(stream)) return kCaptureImplicit;
  *status = !lib.IsCaptured(stream) ? 0 : lib.capture->is_valid ? 1 : 2;
  return kSuccess;
}

TWIN_EXPORT CuResult cuEventCreate(DeviceEvent* event, unsigned flags) {
  HOLDFAST_ENTER(kContextAndSafe);
  if ((flags & ~7u) != 0) return kInvalidValue;
  const auto made = lib.twin.CreateEvent(lib.device());
  if (!made.ok()) return lib.ResultOf(made.status());
  lib.events[*made] = {.device = lib.device()};
  *event = *made;
  return kSuccess;
}

TWIN_EXPORT CuResult cuEventDestroy_v2(DeviceEvent event) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (lib.events.erase(event) == 0) return kInvalidHandle;
  lib.twin.DestroyEvent(lib.device(), event);
  return kSuccess;
}

TWIN_EXPORT CuResult cuEventRecord(DeviceEvent event, DeviceStream stream) {
  HOLDFAST_ENTER(kContext);
  if (const CuResult code = lib.CheckStream(stream)) return code;
  const auto at = lib.events.find(event);
  if (at == lib.events.end() || at->second.device != lib.device()) {
    return kInvalidHandle;
  }
  at->second.is_captured = lib.IsCaptured(stream);
  return lib.ResultOf(
      lib.twin.Record(lib.device(), event, *lib.StreamOf(stream)));
}

TWIN_EXPORT CuResult cuEventQuery(DeviceEvent event) {
  HOLDFAST_ENTER(kContextAndSafe);
  const auto at = lib.events.find(event);
  if (at == lib.events.end()) return kInvalidHandle;
  if (at->second.is_captured) return kCapturedEvent;
  const auto has_passed = lib.twin.HasPassed(at->second.device, event);
  if (!has_passed.ok()) return lib.ResultOf(has_passed.status());
  return *has_passed ? kSuccess : kNotReady;
}

TWIN_EXPORT CuResult cuMemcpyDtoHAsync_v2(void* host, DeviceAddress device,
                                          size_t byte_count,
                                          DeviceStream stream) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (const CuResult code = lib.CheckStream(stream)) return code;
  if (!lib.IsOnDevice(device)) return kInvalidValue;
  return lib.ResultOf(lib.twin.CopyToHost(lib.device(),
                                          {.device = device,
                                           .host = static_cast<char*>(host),
                                           .row_bytes = byte_count},
                                          *lib.StreamOf(stream)));
}

TWIN_EXPORT CuResult cuMemcpyHtoDAsync_v2(DeviceAddress device,
                                          const void* host, size_t byte_count,
                                          DeviceStream stream) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (const CuResult code = lib.CheckStream(stream)) return code;
  if (!lib.IsOnDevice(device)) return kInvalidValue;
  return lib.ResultOf(lib.twin.CopyToDevice(
      lib.device(),
      {.device = device,
       .host = const_cast<char*>(static_cast<const char*>(host)),
       .row_bytes = byte_count},
      *lib.StreamOf(stream)));
}

TWIN_EXPORT CuResult cuMemcpyAsync(DeviceAddress target, DeviceAddress source,
                                   size_t byte_count, DeviceStream stream) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (const CuResult code = lib.CheckStream(stream)) return code;
  if (!lib.IsOnDevice(target) || !lib.IsOnDevice(source)) return kInvalidValue;
  return lib.ResultOf(lib.twin.CopyOnDevices(
      lib.device(),
      {.source = source, .target = target, .row_bytes = byte_count},
      *lib.StreamOf(stream)));
}

TWIN_EXPORT CuResult cuMemcpy2DAsync_v2(const CuCopy2d* rows,
                                        DeviceStream stream) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (const CuResult code = lib.CheckStream(stream)) return code;
  const bool is_plain = rows->source_x == 0 && rows->source_y == 0 &&
                        rows->target_x == 0 && rows->target_y == 0 &&
                        rows->width_bytes <= rows->source_pitch &&
                        rows->width_bytes <= rows->target_pitch &&
                        rows->source_pitch <= kDevicePitchMax &&
                        rows->target_pitch <= kDevicePitchMax;
  if (!is_plain) return kInvalidValue;
  const bool from_host = rows->source_type == kMemoryTypeHost;
  const bool to_host = rows->target_type == kMemoryTypeHost;
  if (!from_host && !lib.IsOnDevice(rows->source_device)) return kInvalidValue;
  if (!to_host && !lib.IsOnDevice(rows->target_device)) return kInvalidValue;
  const int device = lib.device();
  const DeviceStream queue = *lib.StreamOf(stream);
  if (rows->source_type == kMemoryTypeDevice && to_host) {
    return lib.ResultOf(lib.twin.CopyToHost(
        device,
        {rows->source_device, rows->source_pitch,
         static_cast<char*>(rows->target_host), rows->target_pitch,
         rows->width_bytes, rows->height},
        queue));
  }
  if (from_host && rows->target_type == kMemoryTypeDevice) {
    return lib.ResultOf(lib.twin.CopyToDevice(
        device,
        {rows->target_device, rows->target_pitch,
         const_cast<char*>(static_cast<const char*>(rows->source_host)),
         rows->source_pitch, rows->width_bytes, rows->height},
        queue));
  }
  // CUDA takes addresses of one context's memory for kMemoryTypeDevice.
  if (rows->source_type != kMemoryTypeUnified ||
      rows->target_type != kMemoryTypeUnified) {
    return kInvalidValue;
  }
  return lib.ResultOf(lib.twin.CopyOnDevices(
      device,
      {rows->source_device, rows->source_pitch, rows->target_device,
       rows->target_pitch, rows->width_bytes, rows->height},
      queue));
}

TWIN_EXPORT CuResult cuModuleLoadData(CuModule* module, const void* image) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (image == nullptr) return kInvalidValue;
  auto made = std::make_unique<CuModuleImpl>(CuModuleImpl{lib.device()});
  *module = made.get();
  lib.modules[*module] = std::move(made);
  return kSuccess;
}

TWIN_EXPORT CuResult cuModuleGetFunction(DeviceKernel* kernel, CuModule module,
                                         const char* name) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (!lib.modules.contains(module)) return kInvalidHandle;
  const auto at = lib.argument_counts.find(name);
  if (at == lib.argument_counts.end()) return kNotFound;
  const auto made = lib.twin.LoadKernel(module->device, "", name);
  if (!made.ok()) return lib.ResultOf(made.status());
  lib.kernels[*made] = {module->device, at->second};
  *kernel = *made;
  return kSuccess;
}

TWIN_EXPORT CuResult cuModuleUnload(CuModule module) {
  HOLDFAST_ENTER(kContextAndSafe);
  return lib.modules.erase(module) == 0 ? kInvalidHandle : kSuccess;
}

TWIN_EXPORT CuResult cuLaunchKernel(DeviceKernel kernel, unsigned grid_x,
                                    unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y,
                                    unsigned block_z, unsigned shared_bytes,
                                    DeviceStream stream, void** arguments,
                                    void** extra) {
  HOLDFAST_ENTER(kContextAndSafe);
  if (const CuResult code = lib.CheckStream(stream)) return code;
  const auto at = lib.kernels.find(kernel);
  if (at == lib.kernels.end() || at->second.device != lib.device()) {
    return kInvalidHandle;
  }
  const bool is_plain = grid_x > 0 && grid_y == 1 && grid_z == 1 &&
                        block_x > 0 && block_x <= kBlockThreadsMax &&
                        block_y == 1 && block_z == 1 && shared_bytes == 0 &&
                        extra == nullptr;
  if (!is_plain) return kInvalidValue;
  std::vector<KernelArgument> given;
  for (int i = 0; i < at->second.argument_count; ++i) {
    const uint64_t value = *static_cast<const uint64_t*>(arguments[i]);
    given.push_back({value, lib.IsOnDevice(value)});
  }
  return lib.ResultOf(lib.twin.Launch(lib.device(), kernel, {grid_x, block_x},
                                      given, *lib.StreamOf(stream)));
}

#define HOLDFAST_IS_DECLARED_SO(name, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(CudaCalls::name)>);
HOLDFAST_CUDA_CALLS(HOLDFAST_IS_DECLARED_SO)
#undef HOLDFAST_IS_DECLARED_SO

// ---- the controls

void twin_reset(int device_count) {
  HOLDFAST_LOCK();
  lib.Reset(device_count);
}

uint64_t twin_allocate(int device, const void* bytes, uint64_t byte_count) {
  HOLDFAST_LOCK();
  return lib.twin.Allocate(device,
                           {static_cast<const char*>(bytes), byte_count});
}

uint64_t twin_allocate_managed(int device, const void* bytes,
                               uint64_t byte_count) {
  const uint64_t address = twin_allocate(device, bytes, byte_count);
  HOLDFAST_LOCK();
  lib.managed[address] = byte_count;
  return address;
}

void twin_free(uint64_t address) {
  HOLDFAST_LOCK();
  lib.managed.erase(address);
  lib.twin.Free(address);
}

void twin_read(uint64_t address, void* out, uint64_t byte_count) {
  HOLDFAST_LOCK();
  const std::string bytes = lib.twin.Read(address, byte_count);
  bytes.copy(static_cast<char*>(out), bytes.size());
}

void twin_write(uint64_t address, const void* bytes, uint64_t byte_count) {
  HOLDFAST_LOCK();
  lib.twin.Write(address, {static_cast<const char*>(bytes), byte_count});
}

uint64_t twin_new_stream(int device) {
  HOLDFAST_LOCK();
  const DeviceStream stream = *lib.twin.CreateStream(device);
  lib.streams[stream] = {.device = device, .waits_for_default = true};
  return stream;
}

void twin_drop_stream(uint64_t stream) {
  HOLDFAST_LOCK();
  lib.twin.DestroyStream(lib.streams[stream].device, stream);
  lib.streams.erase(stream);
}

void twin_queue_write(int device, uint64_t stream, uint64_t address,
                      const void* bytes, uint64_t byte_count, int poll_count) {
  HOLDFAST_LOCK();
  lib.twin.Queue(
      device, stream <= kThreadStream ? Library::DefaultStream(stream) : stream,
      [&twin = lib.twin, address, polls_left = poll_count,
       text =
           std::string(static_cast<const char*>(bytes), byte_count)]() mutable {
        if (--polls_left > 0) return false;
        twin.Write(address, text);
        return true;
      });
}

void twin_begin_capture(uint64_t stream, int mode) {
  HOLDFAST_LOCK();
  lib.capture = Capture{stream, mode, &capture_mode};
}

int twin_end_capture(void) {
  HOLDFAST_LOCK();
  const bool is_valid = lib.capture.has_value() && lib.capture->is_valid;
  lib.capture.reset();
  return is_valid;
}

void twin_add_kernel(const char* name, twin_kernel kernel, int argument_count) {
  HOLDFAST_LOCK();
  lib.argument_counts[name] = argument_count;
  lib.twin.AddKernel(name, [kernel](const KernelGrid& grid,
                                    std::span<const uint64_t> arguments) {
    kernel(grid.block_count, grid.block_threads, arguments.data());
  });
}

void twin_fail_call(int call, int code) {
  HOLDFAST_LOCK();
  lib.failing_call = call <= 0 ? 0 : lib.call_count + call;
  lib.failing_code = code;
}

void twin_fail_function(const char* name, int code) {
  HOLDFAST_LOCK();
  lib.failing_function = name;
  lib.failing_function_code = code;
}

void twin_stall(int is_stalled) { library().twin.Stall(is_stalled != 0); }

void twin_lose(void) {
  HOLDFAST_LOCK();
  lib.lost_code = kLaunchFailed;
}

void twin_cut_copy(int copy) { library().twin.CutCopy(copy); }

void twin_set_init_result(int code) {
  HOLDFAST_LOCK();
  lib.init_result = code;
}

void twin_set_driver_version(int version) {
  HOLDFAST_LOCK();
  lib.driver_version = version;
}

void twin_set_pinned_bytes_max(uint64_t byte_count) {
  HOLDFAST_LOCK();
  lib.SetPinnedBytesMax(byte_count);
}

void twin_set_device_bytes_max(uint64_t byte_count) {
  HOLDFAST_LOCK();
  lib.SetDeviceBytesMax(byte_count);
}

uint64_t twin_pinned_bytes(void) { return library().twin.pinned_bytes(); }

uint64_t twin_pinned_bytes_peak(void) {
  return library().twin.pinned_bytes_peak();
}

uint64_t twin_device_bytes(int device) {
  return library().twin.device_bytes(device);
}

uint64_t twin_device_bytes_peak(int device) {
  return library().twin.device_bytes_peak(device);
}

int twin_call_count(void) {
  HOLDFAST_LOCK();
  return lib.call_count;
}

uint64_t twin_handle_count(void) {
  HOLDFAST_LOCK();
  return lib.streams.size() + lib.events.size();
}

uint64_t twin_module_count(void) {
  HOLDFAST_LOCK();
  return lib.modules.size();
}

int twin_context_depth(void) { return static_cast<int>(context_stack.size()); }

int twin_capture_mode(void) { return capture_mode; }

int twin_violation_count(void) {
  HOLDFAST_LOCK();
  return static_cast<int>(lib.AllViolations().size());
}

const char* twin_violation(int index) {
  thread_local std::string text;
  HOLDFAST_LOCK();
  const std::vector<std::string> all = lib.AllViolations();
  const auto at = static_cast<size_t>(index);
  text = at < all.size() ? all[at] : std::string();
  return text.c_str();
}

}  // extern "C"
