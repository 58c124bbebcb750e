// The system's libcurl, loaded when it is first needed, so that neither the
// library nor the Python package depends on it (and on the dozen libraries that
// it brings) where no URL is used.
//
// Looked for in this order: the file named by HOLDFAST_LIBCURL and no other,
// libcurl.so.4, libcurl-gnutls.so.4, the file given to SetLibcurlFile
// (http/libcurl_file.h).
// Once loaded it stays until the process exits.
// Thread-safety: any thread. Errors: FailedPrecondition when there is none, or
// one older than 7.68, with what to install.
#pragma once

#define CURL_DISABLE_TYPECHECK 1
#define CURL_DISABLE_DEPRECATION 1
#include <curl/curl.h>

#include "holdfast/status.h"

namespace holdfast {

struct CurlCalls {
  decltype(&curl_global_init) global_init;
  decltype(&curl_version) version;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_multi_init) multi_init;
  decltype(&curl_multi_cleanup) multi_cleanup;
  decltype(&curl_multi_setopt) multi_setopt;
  decltype(&curl_multi_add_handle) multi_add_handle;
  decltype(&curl_multi_remove_handle) multi_remove_handle;
  decltype(&curl_multi_perform) multi_perform;
  decltype(&curl_multi_poll) multi_poll;
  decltype(&curl_multi_wakeup) multi_wakeup;
  decltype(&curl_multi_info_read) multi_info_read;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

// Tried anew as long as it fails.
Result<const CurlCalls*> LoadCurl();

}  // namespace holdfast
