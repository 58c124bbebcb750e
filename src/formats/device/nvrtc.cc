#include "formats/device/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "holdfast/device.h"

namespace holdfast {
namespace {

// From nvrtc.h, which builds do not need. The values are part of the library's
// ABI.
using NvrtcResult = int;
struct NvrtcProgramImpl;
using NvrtcProgram = NvrtcProgramImpl*;

constexpr NvrtcResult kSuccess = 0;
constexpr NvrtcResult kDoesNotCompile = 6;
constexpr std::string_view kVirtualPrefix = "compute_";

#define HOLDFAST_NVRTC_CALLS(F)                                               \
  F(create, "nvrtcCreateProgram",                                             \
    NvrtcResult (*)(NvrtcProgram*, const char*, const char*, int,             \
                    const char* const*, const char* const*))                  \
  F(destroy, "nvrtcDestroyProgram", NvrtcResult (*)(NvrtcProgram*))           \
  F(compile, "nvrtcCompileProgram",                                           \
    NvrtcResult (*)(NvrtcProgram, int, const char* const*))                   \
  F(error_string, "nvrtcGetErrorString", const char* (*)(NvrtcResult))        \
  F(log_bytes, "nvrtcGetProgramLogSize",                                      \
    NvrtcResult (*)(NvrtcProgram, size_t*))                                   \
  F(log, "nvrtcGetProgramLog", NvrtcResult (*)(NvrtcProgram, char*))          \
  F(ptx_bytes, "nvrtcGetPTXSize", NvrtcResult (*)(NvrtcProgram, size_t*))     \
  F(ptx, "nvrtcGetPTX", NvrtcResult (*)(NvrtcProgram, char*))                 \
  F(cubin_bytes, "nvrtcGetCUBINSize", NvrtcResult (*)(NvrtcProgram, size_t*)) \
  F(cubin, "nvrtcGetCUBIN", NvrtcResult (*)(NvrtcProgram, char*))             \
  F(number_count, "nvrtcGetNumSupportedArchs", NvrtcResult (*)(int*))         \
  F(numbers, "nvrtcGetSupportedArchs", NvrtcResult (*)(int*))

struct NvrtcCalls {
#define HOLDFAST_DECLARE(name, symbol, type) \
  std::add_pointer_t<std::remove_pointer_t<type>> name = nullptr;
  HOLDFAST_NVRTC_CALLS(HOLDFAST_DECLARE)
#undef HOLDFAST_DECLARE
};

// Returns the first name that the library lacks, or null.
const char* FindCalls(void* library, NvrtcCalls& calls) {
#define HOLDFAST_FIND(name, symbol, type)                      \
  calls.name = reinterpret_cast<type>(dlsym(library, symbol)); \
  if (calls.name == nullptr) return symbol;
  HOLDFAST_NVRTC_CALLS(HOLDFAST_FIND)
#undef HOLDFAST_FIND
  return nullptr;
}

// Returns 90 for "compute_90".
Result<int> NumberOf(std::string_view architecture) {
  int number = 0;
  if (architecture.starts_with(kVirtualPrefix)) {
    const std::string_view digits = architecture.substr(kVirtualPrefix.size());
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size()) {
      return number;
    }
  }
  return InvalidArgumentError("NVRTC: architecture (got " +
                              std::string(architecture) +
                              ", want compute_ and a number)");
}

class Library : public Nvrtc {
 public:
  explicit Library(const NvrtcCalls& calls) : calls_(calls) {}

  Result<std::string> Compile(const DeviceSource& source,
                              std::string_view architecture) const override {
    HF_ASSIGN_OR_RETURN(const int number, NumberOf(architecture));
    HF_ASSIGN_OR_RETURN(const int nearest, NearestNumber(number));
    const bool is_known = nearest == number;
    return Run(source,
               (is_known ? "sm_" : std::string(kVirtualPrefix)) +
                   std::to_string(nearest),
               is_known ? calls_.cubin_bytes : calls_.ptx_bytes,
               is_known ? calls_.cubin : calls_.ptx);
  }

 private:
  // Returns the newest architecture that the library knows, up to `number`.
  Result<int> NearestNumber(int number) const {
    int count = 0;
    HF_RETURN_IF_ERROR(
        Check(calls_.number_count(&count), "nvrtcGetNumSupportedArchs"));
    constexpr int kCountMax = 1000;
    if (count < 0 || count > kCountMax) {
      return FailedPreconditionError("NVRTC: the library knows " +
                                     std::to_string(count) +
                                     " architectures, want at most 1000");
    }
    std::vector<int> known(static_cast<size_t>(count));
    HF_RETURN_IF_ERROR(
        Check(calls_.numbers(known.data()), "nvrtcGetSupportedArchs"));
    int nearest = 0;
    for (const int one : known) {
      if (one <= number) nearest = std::max(nearest, one);
    }
    if (nearest > 0) return nearest;
    return FailedPreconditionError(
        "NVRTC: the library does not know devices as old as compute_" +
        std::to_string(number));
  }

  Result<std::string> Run(const DeviceSource& source,
                          const std::string& architecture,
                          NvrtcResult (*size_of)(NvrtcProgram, size_t*),
                          NvrtcResult (*copy)(NvrtcProgram, char*)) const {
    const std::string text(source.text);
    const std::string name(source.name);
    const std::string included_text(source.included_text);
    const std::string included_name(source.included_name);
    const char* const texts[] = {included_text.c_str()};
    const char* const names[] = {included_name.c_str()};
    NvrtcProgram program = nullptr;
    HF_RETURN_IF_ERROR(Check(
        calls_.create(&program, text.c_str(), name.c_str(), 1, texts, names),
        "nvrtcCreateProgram"));
    const auto destroy = [this](NvrtcProgramImpl* made) {
      (void)calls_.destroy(&made);
    };
    const std::unique_ptr<NvrtcProgramImpl, decltype(destroy)> owner(program,
                                                                     destroy);
    const std::string option = "--gpu-architecture=" + architecture;
    const char* const options[] = {option.c_str(), "--std=c++17",
                                   "--device-as-default-execution-space"};
    const NvrtcResult compiled =
        calls_.compile(program, std::size(options), options);
    if (compiled != kSuccess) {
      const std::string message = "NVRTC: " + name + " for " + architecture +
                                  ": " + TextOf(compiled) + "\n" +
                                  LogOf(program);
      return compiled == kDoesNotCompile ? InvalidArgumentError(message)
                                         : FailedPreconditionError(message);
    }
    size_t byte_count = 0;
    HF_RETURN_IF_ERROR(Check(size_of(program, &byte_count), "size of " + name));
    std::string image(byte_count, '\0');
    HF_RETURN_IF_ERROR(Check(copy(program, image.data()), name));
    return image;
  }

  std::string LogOf(NvrtcProgram program) const {
    size_t byte_count = 0;
    if (calls_.log_bytes(program, &byte_count) != kSuccess) return "";
    std::string log(byte_count, '\0');
    if (calls_.log(program, log.data()) != kSuccess) return "";
    return log.substr(0, log.find('\0'));
  }

  std::string TextOf(NvrtcResult result) const {
    const char* const text = calls_.error_string(result);
    return text != nullptr ? text : "error " + std::to_string(result);
  }

  Status Check(NvrtcResult result, std::string_view what) const {
    if (result == kSuccess) return Status();
    return FailedPreconditionError("NVRTC: " + std::string(what) + ": " +
                                   TextOf(result));
  }

  const NvrtcCalls calls_;
};

std::mutex path_mutex;
std::string& PathToLookAt() {
  static auto* const path = new std::string;
  return *path;
}

Result<std::unique_ptr<Nvrtc>> LoadAny() {
  std::vector<std::string> libraries = {"libnvrtc.so.13", "libnvrtc.so.12",
                                        "libnvrtc.so.11.2"};
  {
    const std::lock_guard lock(path_mutex);
    const std::string& path = PathToLookAt();
    if (!path.empty()) libraries.insert(libraries.begin(), path);
  }
  Status first_failure;
  for (const std::string& library : libraries) {
    auto loaded = LoadNvrtc(library);
    if (loaded.ok()) return loaded;
    if (first_failure.ok()) first_failure = loaded.status();
  }
  return first_failure;
}

}  // namespace

Result<std::unique_ptr<Nvrtc>> LoadNvrtc(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = dlerror();
    return FailedPreconditionError(
        "NVRTC: the library cannot be loaded, so the host decodes (" +
        std::string(why != nullptr ? why : library) +
        "); to decode on devices, install nvidia-cuda-nvrtc");
  }
  NvrtcCalls calls;
  if (const char* lacking = FindCalls(loaded, calls)) {
    return FailedPreconditionError("NVRTC: " + library + " has no " + lacking +
                                   "; want NVRTC 11.2 or later");
  }
  return std::unique_ptr<Nvrtc>(std::make_unique<Library>(calls));
}

void SetNvrtcPath(const std::string& path) {
  const std::lock_guard lock(path_mutex);
  PathToLookAt() = path;
}

Result<const Nvrtc*> LoadedNvrtc() {
  // Never destroyed, as the library is never unloaded.
  static const auto* const nvrtc =
      new Result<std::unique_ptr<Nvrtc>>(LoadAny());
  if (!nvrtc->ok()) return nvrtc->status();
  return static_cast<const Nvrtc*>(nvrtc->value().get());
}

}  // namespace holdfast
