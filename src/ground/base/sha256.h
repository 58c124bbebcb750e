// SHA-256, HMAC-SHA-256 and random bytes.
//
// Uses OpenSSL's low-level functions and the system's random numbers. OpenSSL's
// EVP_ and RAND_ functions take locks, which another thread may hold during a
// fork, and allocate memory, which may be short; the child, or the save, would
// then never finish.
// Thread-safety: one thread per object. Errors: none.
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
  // Call once, at the end.
  std::array<char, SHA256_DIGEST_LENGTH> Digest();
  std::string HexDigest();

 private:
  SHA256_CTX state_;
};

// Returns the message authentication code of RFC 2104, as raw bytes.
std::string HmacSha256(std::string_view key, std::string_view text);

// Returns 32 unpredictable hex digits.
std::string RandomHex32();

}  // namespace holdfast
