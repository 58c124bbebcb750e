// Finds the file of trusted certificates.
//
// Thread-safety: reads the environment. Errors: FailedPrecondition when a file
// that was named explicitly cannot be read.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Returns `asked`; without it, the first of HOLDFAST_CA_BUNDLE, AWS_CA_BUNDLE,
// SSL_CERT_FILE and CURL_CA_BUNDLE that is set; otherwise the system's file
// (Debian, Fedora and RHEL, SUSE, Alpine). Returns "" if none of these exists,
// which leaves the choice to libcurl.
Result<std::string> FindCaBundle(const std::string& asked);

}  // namespace holdfast
