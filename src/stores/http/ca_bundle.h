// The file of trusted certificates.
//
// Thread-safety: reads the environment. Errors: FailedPrecondition when a file
// that somebody named cannot be read.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast {

// `asked`, else the first of HOLDFAST_CA_BUNDLE, AWS_CA_BUNDLE, SSL_CERT_FILE,
// CURL_CA_BUNDLE that is set, else the system's file (Debian, Fedora and RHEL,
// SUSE, Alpine); "" without any: libcurl's own choice.
Result<std::string> FindCaBundle(const std::string& asked);

}  // namespace holdfast
