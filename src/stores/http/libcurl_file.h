// Says and sets which libcurl is used, for higher layers that do not include
// libcurl's headers.
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Sets a file to load when the system has no libcurl. Call before the first
// request.
void SetLibcurlFile(std::string file);

// Returns "libcurl/7.88.1 OpenSSL/3.0.17 zlib/1.2.13 at
// /usr/lib/.../libcurl.so.4", for example. FailedPrecondition as LoadCurl
// (stores/http/curl_library.h).
Result<std::string> DescribeLibcurl();

}  // namespace holdfast
