#include "stores/cloud/gcs/rs256.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>

#include "ground/base/text.h"
#include "ground/json/members.h"

namespace holdfast {
namespace {

struct FreeOpenSsl {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeOpenSsl>;

// Makes reading an encrypted key fail instead of prompting for a password on
// the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

PrivateKey ReadPrivateKey(const std::string& pem) {
  const std::unique_ptr<BIO, FreeOpenSsl> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (bio == nullptr) return nullptr;
  return PrivateKey(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
}

Result<std::string> SignSha256(EVP_PKEY* key, std::string_view text) {
  const std::unique_ptr<EVP_MD_CTX, FreeOpenSsl> context(EVP_MD_CTX_new());
  size_t size = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) !=
          1 ||
      EVP_DigestSign(context.get(), nullptr, &size, data, text.size()) != 1) {
    return InternalError("the private key cannot sign");
  }
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(),
                     reinterpret_cast<unsigned char*>(signature.data()), &size,
                     data, text.size()) != 1) {
    return InternalError("the private key cannot sign");
  }
  signature.resize(size);
  return signature;
}

// Returns URL-safe Base64 without padding, as JWTs use it.
std::string Base64Url(std::string_view bytes) {
  std::string text = UrlSafeBase64(bytes);
  while (text.ends_with('=')) text.pop_back();
  return text;
}

}  // namespace

Result<std::string> MakeSignedJwt(const JwtClaims& claims,
                                  const std::string& private_key_pem) {
  const PrivateKey key = ReadPrivateKey(private_key_pem);
  if (key == nullptr || EVP_PKEY_base_id(key.get()) != EVP_PKEY_RSA) {
    return InvalidArgumentError(
        "private_key is not an RSA private key in PEM without a password");
  }
  nlohmann::json header = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (!claims.key_id.empty()) header["kid"] = claims.key_id;
  const nlohmann::json body = {{"iss", claims.issuer},
                               {"scope", claims.scope},
                               {"aud", claims.audience},
                               {"iat", claims.issued_s},
                               {"exp", claims.expires_s}};
  std::string text =
      Base64Url(JsonLine(header)) + "." + Base64Url(JsonLine(body));
  auto signature = SignSha256(key.get(), text);
  if (!signature.ok()) return signature.status();
  return text + "." + Base64Url(*signature);
}

}  // namespace holdfast
