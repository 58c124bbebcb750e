#include "ground/device/cuda_driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/device/cuda_abi.h"

namespace holdfast {
namespace {

using namespace cuda;

// Returns the first name that the library lacks, or null.
const char* FindCalls(void* library, CudaCalls& calls) {
#define HOLDFAST_FIND(name, symbol, parameters)                        \
  calls.name =                                                         \
      reinterpret_cast<decltype(calls.name)>(dlsym(library, #symbol)); \
  if (calls.name == nullptr) return #symbol;
  HOLDFAST_CUDA_CALLS(HOLDFAST_FIND)
#undef HOLDFAST_FIND
  return nullptr;
}

class Cuda : public DeviceDriver {
 public:
  explicit Cuda(const CudaCalls& calls) : calls_(calls) {}

  // Begins the library and takes each device's primary context.
  Status Begin() {
    HF_RETURN_IF_ERROR(Initialize());
    int version = 0;
    HF_RETURN_IF_ERROR(
        Check(calls_.driver_version(&version), "cuDriverGetVersion"));
    if (version < kVersionMin) {
      return FailedPreconditionError(
          "CUDA: the driver is too old (got " + std::to_string(version) +
          ", want " + std::to_string(kVersionMin) + " or later)");
    }
    int device_count = 0;
    HF_RETURN_IF_ERROR(
        Check(calls_.device_count(&device_count), "cuDeviceGetCount"));
    if (device_count < 1) {
      return FailedPreconditionError("CUDA: this machine has no device");
    }
    contexts_.resize(static_cast<size_t>(device_count));
    return Status();
  }

  std::string_view name() const override { return "CUDA"; }

  Result<AddressInfo> Describe(DeviceAddress address) override {
    HF_RETURN_IF_ERROR(CheckProcess());
    const Relaxed relaxed(calls_);
    AddressInfo info;
    unsigned type = 0;
    // The library answers that an address of ordinary memory is invalid.
    const CuResult known =
        calls_.attribute(&type, kAttributeMemoryType, address);
    if (known == kInvalidValue) return info;
    HF_RETURN_IF_ERROR(Check(known, "cuPointerGetAttribute"));
    unsigned is_managed = 0;
    HF_RETURN_IF_ERROR(Attribute(&is_managed, kAttributeIsManaged, address));
    if (is_managed != 0) {
      info.home = MemoryHome::kManaged;
    } else if (type == kMemoryTypeDevice) {
      info.home = MemoryHome::kDevice;
    } else {
      info.home = MemoryHome::kPinned;
    }
    if (info.home == MemoryHome::kPinned) return info;
    HF_RETURN_IF_ERROR(
        Attribute(&info.device, kAttributeDeviceOrdinal, address));
    // Unlike the others, these two need a context.
    size_t byte_count = 0;
    HF_RETURN_IF_ERROR(On(info.device, [&] {
      HF_RETURN_IF_ERROR(Attribute(&info.begin, kAttributeRangeStart, address));
      return Attribute(&byte_count, kAttributeRangeSize, address);
    }));
    info.byte_count = byte_count;
    return info;
  }

  Result<char*> AllocatePinned(int device, uint64_t byte_count) override {
    void* memory = nullptr;
    HF_RETURN_IF_ERROR(On(device, [&] {
      return Check(calls_.host_alloc(&memory, byte_count, kHostAllocPortable),
                   "cuMemHostAlloc");
    }));
    return static_cast<char*>(memory);
  }
  void FreePinned(int device, char* memory) override {
    (void)On(device, [&] { return Check(calls_.host_free(memory), "free"); });
  }

  Result<DeviceStream> CreateStream(int device) override {
    DeviceStream stream = 0;
    HF_RETURN_IF_ERROR(On(device, [&] {
      return Check(calls_.stream_create(&stream, kStreamNonBlocking),
                   "cuStreamCreate");
    }));
    return stream;
  }
  void DestroyStream(int device, DeviceStream stream) override {
    (void)On(device,
             [&] { return Check(calls_.stream_destroy(stream), "destroy"); });
  }

  Result<DeviceEvent> CreateEvent(int device) override {
    DeviceEvent event = 0;
    HF_RETURN_IF_ERROR(On(device, [&] {
      return Check(calls_.event_create(&event, kEventDisableTiming),
                   "cuEventCreate");
    }));
    return event;
  }
  void DestroyEvent(int device, DeviceEvent event) override {
    (void)On(device,
             [&] { return Check(calls_.event_destroy(event), "destroy"); });
  }
  Status Record(int device, DeviceEvent event, DeviceStream stream) override {
    return On(device, [&] {
      int is_capturing = 0;
      const CuResult asked = calls_.is_capturing(stream, &is_capturing);
      if (asked == kCaptureImplicit ||
          (asked == kSuccess && is_capturing != 0)) {
        return FailedPreconditionError(
            "CUDA: the stream's work is being captured into a graph; save "
            "after the capture");
      }
      const CuResult recorded = calls_.event_record(event, stream);
      if (recorded == kInvalidHandle) {
        return InvalidArgumentError(
            "CUDA: the stream is not one of this device's primary context");
      }
      return Check(recorded, "cuEventRecord");
    });
  }
  Result<bool> HasPassed(int device, DeviceEvent event) override {
    bool has_passed = false;
    HF_RETURN_IF_ERROR(On(device, [&] {
      const CuResult result = calls_.event_query(event);
      has_passed = result == kSuccess;
      return result == kNotReady ? Status() : Check(result, "cuEventQuery");
    }));
    return has_passed;
  }

  Status CopyToHost(int device, const RowCopy& copy,
                    DeviceStream stream) override {
    return On(device, [&] {
      if (copy.row_count == 1) {
        return Check(
            calls_.copy_to_host(copy.host, copy.device, copy.row_bytes, stream),
            "cuMemcpyDtoHAsync");
      }
      return CopyRows(DeviceSide(copy), HostSide(copy), copy.row_bytes,
                      copy.row_count, stream);
    });
  }

  Status CopyToDevice(int device, const RowCopy& copy,
                      DeviceStream stream) override {
    return On(device, [&] {
      if (copy.row_count == 1) {
        return Check(calls_.copy_to_device(copy.device, copy.host,
                                           copy.row_bytes, stream),
                     "cuMemcpyHtoDAsync");
      }
      return CopyRows(HostSide(copy), DeviceSide(copy), copy.row_bytes,
                      copy.row_count, stream);
    });
  }

  Status CopyOnDevices(int device, const DeviceRowCopy& copy,
                       DeviceStream stream) override {
    return On(device, [&] {
      // The addresses tell the library the devices.
      if (copy.row_count == 1) {
        return Check(calls_.copy_on_devices(copy.target, copy.source,
                                            copy.row_bytes, stream),
                     "cuMemcpyAsync");
      }
      return CopyRows({.type = kMemoryTypeUnified,
                       .device = copy.source,
                       .pitch = copy.source_pitch},
                      {.type = kMemoryTypeUnified,
                       .device = copy.target,
                       .pitch = copy.target_pitch},
                      copy.row_bytes, copy.row_count, stream);
    });
  }

  Status WaitFor(int device, DeviceStream stream, DeviceEvent event) override {
    return On(device, [&] {
      return Check(calls_.stream_wait(stream, event, 0), "cuStreamWaitEvent");
    });
  }

  Result<DeviceAddress> AllocateDevice(int device,
                                       uint64_t byte_count) override {
    DeviceAddress memory = 0;
    HF_RETURN_IF_ERROR(On(device, [&] {
      return Check(calls_.device_alloc(&memory, byte_count), "cuMemAlloc");
    }));
    return memory;
  }
  void FreeDevice(int device, DeviceAddress memory) override {
    (void)On(device, [&] { return Check(calls_.device_free(memory), "free"); });
  }
  Result<DeviceSpace> Space(int device) override {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    HF_RETURN_IF_ERROR(On(device, [&] {
      return Check(calls_.space(&free_bytes, &total_bytes), "cuMemGetInfo");
    }));
    return DeviceSpace{free_bytes, total_bytes};
  }

  Result<std::string> Architecture(int device) override {
    int major = 0;
    int minor = 0;
    HF_RETURN_IF_ERROR(On(device, [&] {
      CuDevice handle = 0;
      HF_RETURN_IF_ERROR(
          Check(calls_.device_get(&handle, device), "cuDeviceGet"));
      HF_RETURN_IF_ERROR(
          Check(calls_.device_attribute(&major, kAttributeComputeMajor, handle),
                "cuDeviceGetAttribute"));
      return Check(
          calls_.device_attribute(&minor, kAttributeComputeMinor, handle),
          "cuDeviceGetAttribute");
    }));
    return "compute_" + std::to_string(major) + std::to_string(minor);
  }

  Result<DeviceKernel> LoadKernel(int device, const std::string& image,
                                  const std::string& name) override {
    DeviceKernel kernel = 0;
    HF_RETURN_IF_ERROR(On(device, [&] {
      CuModule module = nullptr;
      HF_RETURN_IF_ERROR(CheckImage(calls_.module_load(&module, image.c_str()),
                                    "cuModuleLoadData"));
      const Status found = CheckImage(
          calls_.module_function(&kernel, module, name.c_str()), name);
      if (!found.ok()) (void)calls_.module_unload(module);
      return found;
    }));
    return kernel;
  }

  Status Launch(int device, DeviceKernel kernel, const KernelGrid& grid,
                std::span<const KernelArgument> arguments,
                DeviceStream stream) override {
    std::vector<uint64_t> values;
    values.reserve(arguments.size());
    for (const KernelArgument& argument : arguments) {
      values.push_back(argument.value);
    }
    std::vector<void*> pointers;
    pointers.reserve(values.size());
    for (uint64_t& value : values) pointers.push_back(&value);
    return On(device, [&] {
      return Check(
          calls_.launch(kernel, grid.block_count, 1, 1, grid.block_threads, 1,
                        1, 0, stream, pointers.data(), nullptr),
          "cuLaunchKernel");
    });
  }

  Status CheckProcess() const override {
    if (::getpid() == process_) return Status();
    return FailedPreconditionError(std::string(kForked));
  }

 private:
  static constexpr std::string_view kForked =
      "CUDA: this process was forked after CUDA had begun, which CUDA does not "
      "support; start it by spawn, or save from the parent";

  // Permits the calling thread, for its lifetime, calls that would otherwise
  // break a capture of the program's.
  class Relaxed {
   public:
    explicit Relaxed(const CudaCalls& calls) : calls_(calls) {
      exchanged_ = calls_.exchange_capture_mode(&mode_);
    }
    ~Relaxed() {
      if (exchanged_ == kSuccess) (void)calls_.exchange_capture_mode(&mode_);
    }
    Relaxed(const Relaxed&) = delete;
    Relaxed& operator=(const Relaxed&) = delete;

   private:
    const CudaCalls& calls_;
    int mode_ = kCaptureRelaxed;  // then the thread's own
    CuResult exchanged_ = kSuccess;
  };

  // Makes the context the calling thread's current one for its lifetime.
  class Current {
   public:
    Current(const CudaCalls& calls, CuContext context) : calls_(calls) {
      pushed_ = calls_.push_context(context);
    }
    ~Current() {
      CuContext popped = nullptr;
      if (pushed_ == kSuccess) (void)calls_.pop_context(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

    CuResult pushed() const { return pushed_; }

   private:
    const CudaCalls& calls_;
    CuResult pushed_ = kSuccess;
  };

  // The source or the target of rows.
  struct Side {
    unsigned type = 0;
    char* host = nullptr;
    DeviceAddress device = 0;
    uint64_t pitch = 0;
  };
  static Side HostSide(const RowCopy& copy) {
    return {
        .type = kMemoryTypeHost, .host = copy.host, .pitch = copy.host_pitch};
  }
  static Side DeviceSide(const RowCopy& copy) {
    return {.type = kMemoryTypeDevice,
            .device = copy.device,
            .pitch = copy.device_pitch};
  }

  Status CopyRows(const Side& source, const Side& target, uint64_t row_bytes,
                  uint64_t row_count, DeviceStream stream) {
    CuCopy2d rows;
    rows.source_type = source.type;
    rows.source_host = source.host;
    rows.source_device = source.device;
    rows.source_pitch = source.pitch;
    rows.target_type = target.type;
    rows.target_host = target.host;
    rows.target_device = target.device;
    rows.target_pitch = target.pitch;
    rows.width_bytes = row_bytes;
    rows.height = row_count;
    return Check(calls_.copy_2d(&rows, stream), "cuMemcpy2DAsync");
  }

  Status Initialize() {
    const CuResult result = calls_.init(0);
    switch (result) {
      case kNotInitialized:
        return FailedPreconditionError(std::string(kForked));
      case kStubLibrary:
      case kNoDevice:
      case kDriverMismatch:
      case kDriverUnsupported:
        return FailedPreconditionError(
            std::string(Check(result, "cuInit").message()));
      default:
        return Check(result, "cuInit");
    }
  }

  // Runs `fn` with the device's primary context.
  template <typename Fn>
  Status On(int device, Fn&& fn) {
    HF_RETURN_IF_ERROR(CheckProcess());
    const Relaxed relaxed(calls_);
    HF_ASSIGN_OR_RETURN(const CuContext context, ContextOf(device));
    const Current current(calls_, context);
    const Status pushed = Check(current.pushed(), "cuCtxPushCurrent");
    const Status status = pushed.ok() ? fn() : pushed;
    return status.WithContext("device " + std::to_string(device));
  }

  Result<CuContext> ContextOf(int device) {
    if (device < 0 || static_cast<size_t>(device) >= contexts_.size()) {
      return InvalidArgumentError("CUDA: device " + std::to_string(device) +
                                  " of " + std::to_string(contexts_.size()));
    }
    const std::lock_guard lock(mutex_);
    CuContext& context = contexts_[static_cast<size_t>(device)];
    if (context != nullptr) return context;
    CuDevice handle = 0;
    HF_RETURN_IF_ERROR(
        Check(calls_.device_get(&handle, device), "cuDeviceGet"));
    // Retained for good: programs' frameworks keep their contexts, too.
    HF_RETURN_IF_ERROR(Check(calls_.retain_context(&context, handle),
                             "cuDevicePrimaryCtxRetain"));
    return context;
  }

  template <typename T>
  Status Attribute(T* value, int attribute, DeviceAddress address) {
    return Check(calls_.attribute(value, attribute, address),
                 "cuPointerGetAttribute");
  }

  Status CheckImage(CuResult result, std::string_view what) const {
    const Status status = Check(result, what);
    switch (result) {
      case kInvalidImage:
      case kNoBinaryForDevice:
      case kInvalidPtx:
      case kUnsupportedPtxVersion:
      case kNotFound:
        return InvalidArgumentError(std::string(status.message()));
      default:
        return status;
    }
  }

  Status Check(CuResult result, std::string_view what) const {
    if (result == kSuccess) return Status();
    const char* text = nullptr;
    (void)calls_.error_string(result, &text);
    const std::string message = "CUDA: " + std::string(what) + ": " +
                                (text != nullptr ? text : "unknown error") +
                                " (" + std::to_string(result) + ")";
    if (result == kOutOfMemory) return ResourceExhaustedError(message);
    if (result == kInvalidValue) return InvalidArgumentError(message);
    return UnavailableError(message);
  }

  const CudaCalls calls_;
  const ::pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::vector<CuContext> contexts_;  // null until first used
};

}  // namespace

Result<std::unique_ptr<DeviceDriver>> LoadCudaDriver(
    const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = dlerror();
    return FailedPreconditionError(
        "CUDA: the driver's library cannot be loaded (" +
        std::string(why != nullptr ? why : library) + ")");
  }
  CudaCalls calls;
  if (const char* lacking = FindCalls(loaded, calls)) {
    return FailedPreconditionError("CUDA: " + library + " has no " + lacking +
                                   "; want a driver of CUDA 11 or later");
  }
  auto driver = std::make_unique<Cuda>(calls);
  HF_RETURN_IF_ERROR(driver->Begin());
  return std::unique_ptr<DeviceDriver>(std::move(driver));
}

Result<DeviceDriver*> CudaDriver() {
  // Never destroyed: buffers may be released after main has returned.
  static const auto* const driver =
      new Result<std::unique_ptr<DeviceDriver>>(LoadCudaDriver("libcuda.so.1"));
  if (!driver->ok()) return driver->status();
  return (*driver)->get();
}

}  // namespace holdfast
