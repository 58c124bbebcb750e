#include "stores/http/curl_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/http/libcurl_file.h"

namespace holdfast {
namespace {

constexpr const char* kCurlVariable = "HOLDFAST_LIBCURL";

// libcurl's state. It is never destroyed, because requests may be made while
// the process exits.
struct CurlState {
  std::mutex mutex;
  std::string extra_file;
  CurlCalls calls = {};
  bool is_loaded = false;
};

CurlState& TheCurl() {
  static auto* state = new CurlState;
  return *state;
}

// Returns the library that the user names, or "".
std::string CurlAskedFor() {
  const char* asked = std::getenv(kCurlVariable);
  return asked != nullptr ? asked : "";
}

std::vector<std::string> CurlCandidates(const std::string& extra_file) {
  const std::string asked = CurlAskedFor();
  if (!asked.empty()) return {asked};
  std::vector<std::string> files = {"libcurl.so.4", "libcurl-gnutls.so.4"};
  if (!extra_file.empty()) files.push_back(extra_file);
  return files;
}

#ifdef HOLDFAST_CURL_INSIDE
std::optional<CurlCalls> CurlInside() {
  CurlCalls calls = {};
#define HOLDFAST_TAKE(name) calls.name = &curl_##name;
  HOLDFAST_CURL_CALLS(HOLDFAST_TAKE)
#undef HOLDFAST_TAKE
  return calls;
}
#else
std::optional<CurlCalls> CurlInside() { return std::nullopt; }
#endif

template <typename Function>
bool FindSymbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool FindCalls(void* library, CurlCalls& calls) {
  bool all = true;
#define HOLDFAST_FIND(name) \
  all = all && FindSymbol(library, "curl_" #name, calls.name);
  HOLDFAST_CURL_CALLS(HOLDFAST_FIND)
#undef HOLDFAST_FIND
  return all;
}

Result<CurlCalls> LoadCurlFrom(const std::vector<std::string>& files) {
  std::string tried;
  for (const std::string& file : files) {
    if (!tried.empty()) tried += "; ";
    // RTLD_LOCAL keeps libcurl's TLS library from replacing the program's own.
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      tried += why != nullptr ? why : file;
      continue;
    }
    CurlCalls calls = {};
    if (!FindCalls(library, calls)) {
      tried += file + ": not a libcurl of 7.68 or later";
      continue;
    }
    if (calls.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      tried += file + ": curl_global_init failed";
      continue;
    }
    return calls;
  }
  return FailedPreconditionError(
      "URLs need libcurl, which cannot be loaded; install it (Debian: "
      "libcurl4, Fedora: libcurl, Alpine: libcurl, or Python's pycurl), or "
      "name its file in " +
      std::string(kCurlVariable) + " (" + tried + ")");
}

Result<CurlCalls> FindCurl(const std::string& extra_file) {
  const std::optional<CurlCalls> inside = CurlInside();
  if (!inside.has_value() || !CurlAskedFor().empty()) {
    return LoadCurlFrom(CurlCandidates(extra_file));
  }
  if (inside->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return ResourceExhaustedError("curl_global_init failed");
  }
  return *inside;
}

}  // namespace

Result<const CurlCalls*> LoadCurl() {
  CurlState& state = TheCurl();
  const std::lock_guard lock(state.mutex);
  if (!state.is_loaded) {
    HF_ASSIGN_OR_RETURN(state.calls, FindCurl(state.extra_file));
    state.is_loaded = true;
  }
  return &state.calls;
}

void SetLibcurlFile(std::string file) {
  CurlState& state = TheCurl();
  const std::lock_guard lock(state.mutex);
  state.extra_file = std::move(file);
}

Result<std::string> DescribeLibcurl() {
  HF_ASSIGN_OR_RETURN(const CurlCalls* curl, LoadCurl());
  std::string text = curl->version();
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(curl->version), &info) != 0 &&
      info.dli_fname != nullptr) {
    text += std::string(" at ") + info.dli_fname;
  }
  return text;
}

}  // namespace holdfast
