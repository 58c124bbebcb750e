#include "http/curl_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "http/libcurl_file.h"

namespace holdfast {
namespace {

constexpr const char* kCurlVariable = "HOLDFAST_LIBCURL";

// Never destroyed: requests may be made while the process exits.
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

std::vector<std::string> CurlCandidates(const std::string& extra_file) {
  const char* asked = std::getenv(kCurlVariable);
  if (asked != nullptr && *asked != '\0') return {asked};
  std::vector<std::string> files = {"libcurl.so.4", "libcurl-gnutls.so.4"};
  if (!extra_file.empty()) files.push_back(extra_file);
  return files;
}

template <typename Function>
bool FindSymbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool FindCalls(void* library, CurlCalls& calls) {
  return FindSymbol(library, "curl_global_init", calls.global_init) &&
         FindSymbol(library, "curl_version", calls.version) &&
         FindSymbol(library, "curl_easy_init", calls.easy_init) &&
         FindSymbol(library, "curl_easy_cleanup", calls.easy_cleanup) &&
         FindSymbol(library, "curl_easy_reset", calls.easy_reset) &&
         FindSymbol(library, "curl_easy_setopt", calls.easy_setopt) &&
         FindSymbol(library, "curl_easy_getinfo", calls.easy_getinfo) &&
         FindSymbol(library, "curl_easy_strerror", calls.easy_strerror) &&
         FindSymbol(library, "curl_multi_init", calls.multi_init) &&
         FindSymbol(library, "curl_multi_cleanup", calls.multi_cleanup) &&
         FindSymbol(library, "curl_multi_setopt", calls.multi_setopt) &&
         FindSymbol(library, "curl_multi_add_handle", calls.multi_add_handle) &&
         FindSymbol(library, "curl_multi_remove_handle",
                    calls.multi_remove_handle) &&
         FindSymbol(library, "curl_multi_perform", calls.multi_perform) &&
         FindSymbol(library, "curl_multi_poll", calls.multi_poll) &&
         FindSymbol(library, "curl_multi_wakeup", calls.multi_wakeup) &&
         FindSymbol(library, "curl_multi_info_read", calls.multi_info_read) &&
         FindSymbol(library, "curl_slist_append", calls.slist_append) &&
         FindSymbol(library, "curl_slist_free_all", calls.slist_free_all);
}

Result<CurlCalls> LoadCurlFrom(const std::vector<std::string>& files) {
  std::string tried;
  for (const std::string& file : files) {
    if (!tried.empty()) tried += "; ";
    // RTLD_LOCAL: libcurl's TLS library must not take the place of the
    // program's own.
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      tried += why != nullptr ? why : file;
      continue;
    }
    CurlCalls calls = {};
    if (!FindCalls(library, calls)) {
      tried += file + ": is no libcurl of 7.68 or later";
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

}  // namespace

Result<const CurlCalls*> LoadCurl() {
  CurlState& state = TheCurl();
  const std::lock_guard lock(state.mutex);
  if (!state.is_loaded) {
    HF_ASSIGN_OR_RETURN(state.calls,
                        LoadCurlFrom(CurlCandidates(state.extra_file)));
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
