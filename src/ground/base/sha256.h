// SHA-256, and random bytes.
//
// OpenSSL's low-level functions, and the system's random numbers: its EVP_ and
// RAND_ functions take locks, which a thread may hold while another forks, and
// memory, which may be short. The child, or the save, then never ends.
// Thread-safety: one thread an object. Errors: none.
#pragma once

#include <openssl/sha.h>

#include <array>
#include <string>
#include <string_view>

namespace holdfast {

class Sha256 {
 public:
  Sha256();
  void Update(std::string_view data);
  // Once, at the end.
  std::array<char, SHA256_DIGEST_LENGTH> Digest();
  std::string HexDigest();

 private:
  SHA256_CTX state_;
};

// The message authentication code of RFC 2104, not in hex.
std::string HmacSha256(std::string_view key, std::string_view text);

// 32 hex digits that nobody can foresee.
std::string RandomHex32();

}  // namespace holdfast
