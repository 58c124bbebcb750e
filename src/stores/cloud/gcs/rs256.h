// Makes JWTs signed with RS256 (RFC 7515, 7518). A service account uses them to
// prove its identity.
//
// Thread-safety: pure functions. Units: seconds since 1970.
// Errors: InvalidArgument (a key that is not an RSA private key in PEM, or
// needs a password). No message contains any part of the key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct JwtClaims {
  std::string issuer;  // the account's e-mail
  std::string scope;
  std::string audience;  // the token endpoint
  std::string key_id;    // "": not in the header
  int64_t issued_s = 0;
  int64_t expires_s = 0;
};

Result<std::string> MakeSignedJwt(const JwtClaims& claims,
                                  const std::string& private_key_pem);

}  // namespace holdfast
