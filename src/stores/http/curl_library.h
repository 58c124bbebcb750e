// The system's libcurl, loaded when it is first needed. Neither the library nor
// the Python package thus depends on libcurl (and on the dozen libraries that
// it needs) where no URL is used.
//
// The file that HOLDFAST_LIBCURL names is used, and no other. Without it, these
// are tried in order: the copy compiled in (HOLDFAST_CURL_INSIDE, for wheels
// and static commands); libcurl.so.4; libcurl-gnutls.so.4; the file given to
// SetLibcurlFile (stores/http/libcurl_file.h). Once loaded, libcurl stays until
// the process exits.
// Thread-safety: any thread. Errors: FailedPrecondition when libcurl is missing
// or older than 7.68; the message says what to install.
#pragma once

#define CURL_DISABLE_TYPECHECK 1
#define CURL_DISABLE_DEPRECATION 1
#include <curl/curl.h>

#include "holdfast/status.h"

namespace holdfast {

// The libcurl functions that this folder calls, without their "curl_" prefix.
// clang-format off
#define HOLDFAST_CURL_CALLS(X)                                           \
  X(global_init) X(version) X(slist_append) X(slist_free_all)            \
  X(easy_init) X(easy_cleanup) X(easy_reset) X(easy_setopt)              \
  X(easy_getinfo) X(easy_strerror)                                       \
  X(multi_init) X(multi_cleanup) X(multi_setopt) X(multi_add_handle)     \
  X(multi_remove_handle) X(multi_perform) X(multi_poll) X(multi_wakeup)  \
  X(multi_info_read)
// clang-format on

struct CurlCalls {
#define HOLDFAST_MEMBER(name) decltype(&curl_##name) name;
  HOLDFAST_CURL_CALLS(HOLDFAST_MEMBER)
#undef HOLDFAST_MEMBER
};

// Returns libcurl's functions, loading it first if needed. After a failure, the
// next call tries again.
Result<const CurlCalls*> LoadCurl();

}  // namespace holdfast
