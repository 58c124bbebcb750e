#include "pickle/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "base/coding.h"
#include "pickle/elements.h"

namespace holdfast::pickle {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  [[maybe_unused]] const int ok =
      EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr);
  assert(ok == 1);
}

Sha256::~Sha256() = default;

void Sha256::Add(const void* data, size_t byte_count) {
  if (byte_count != 0) EVP_DigestUpdate(state_->context, data, byte_count);
}

std::string Sha256::Hex() {
  std::array<char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context,
                     reinterpret_cast<unsigned char*>(digest.data()), &size);
  return ToHex({digest.data(), size});
}

std::string Sha256OfElements(const ConstArrayView& view) {
  Sha256 hash;
  ForEachPiece(view, [&](std::string_view piece) {
    hash.Add(piece.data(), piece.size());
  });
  return hash.Hex();
}

}  // namespace holdfast::pickle
