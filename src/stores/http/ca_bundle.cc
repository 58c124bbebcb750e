#include "stores/http/ca_bundle.h"

#include <unistd.h>

#include <cstdlib>

namespace holdfast {
namespace {

bool IsReadable(const std::string& file) {
  return access(file.c_str(), R_OK) == 0;
}

Result<std::string> NamedBundle(const std::string& file,
                                const std::string& by) {
  if (IsReadable(file)) return file;
  return FailedPreconditionError("trusted certificates: " + file +
                                 ", named by " + by + ", cannot be read");
}

}  // namespace

Result<std::string> FindCaBundle(const std::string& asked) {
  if (!asked.empty()) return NamedBundle(asked, "the options");
  for (const char* name : {"HOLDFAST_CA_BUNDLE", "AWS_CA_BUNDLE",
                           "SSL_CERT_FILE", "CURL_CA_BUNDLE"}) {
    // A file that was named explicitly and cannot be read is an error: another
    // file would trust other servers than the user chose.
    const char* file = std::getenv(name);
    if (file != nullptr && *file != '\0') return NamedBundle(file, name);
  }
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt",
                           "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (IsReadable(file)) return std::string(file);
  }
  return std::string();
}

}  // namespace holdfast
