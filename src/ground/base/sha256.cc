#define OPENSSL_SUPPRESS_DEPRECATED
#include "ground/base/sha256.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "ground/base/coding.h"

namespace holdfast {

Sha256::Sha256() { SHA256_Init(&state_); }

void Sha256::Update(std::string_view data) {
  SHA256_Update(&state_, data.data(), data.size());
}

std::array<char, SHA256_DIGEST_LENGTH> Sha256::Digest() {
  std::array<char, SHA256_DIGEST_LENGTH> digest;
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &state_);
  return digest;
}

std::string Sha256::HexDigest() {
  const auto digest = Digest();
  return ToHex({digest.data(), digest.size()});
}

std::string HmacSha256(std::string_view key, std::string_view text) {
  std::array<char, SHA256_CBLOCK> block{};
  // RFC 2104: a key longer than a block is replaced by its hash.
  if (key.size() > block.size()) {
    Sha256 hash;
    hash.Update(key);
    const auto digest = hash.Digest();
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  const auto hash_of = [&block](char mask, std::string_view what) {
    std::array<char, SHA256_CBLOCK> masked = block;
    for (char& c : masked) c = static_cast<char>(c ^ mask);
    Sha256 hash;
    hash.Update({masked.data(), masked.size()});
    hash.Update(what);
    return hash.Digest();
  };
  const auto inner = hash_of(0x36, text);
  const auto outer = hash_of(0x5c, {inner.data(), inner.size()});
  return {outer.data(), outer.size()};
}

std::string RandomHex32() {
  std::array<char, 16> bytes;
  if (::getentropy(bytes.data(), bytes.size()) != 0) {  // not in this kernel
    std::random_device random;
    for (char& byte : bytes) byte = static_cast<char>(random());
  }
  return ToHex({bytes.data(), bytes.size()});
}

}  // namespace holdfast
