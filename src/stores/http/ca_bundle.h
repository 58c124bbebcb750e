// Finds the file of trusted certificates.
//
// Thread-safety: reads the environment. Errors: FailedPrecondition when a file
// that was named explicitly cannot be read.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast {

// `asked`, else the first of HOLDFAST_CA_BUNDLE, AWS_CA_BUNDLE, SSL_CERT_FILE,
// CURL_CA_BUNDLE that is set, else the system's file (Debian, Fedora and RHEL,
// SUSE, Alpine). If none of these exists, "", which leaves the choice to
// libcurl.
Result<std::string> FindCaBundle(const std::string& asked);

}  // namespace holdfast
