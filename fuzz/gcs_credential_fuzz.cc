// ParseCredentialFile: an accepted file has everything that its kind needs, and
// no address to which secrets must not be sent.
#include "fuzz_util.h"
#include "stores/cloud/gcs/credential_file.h"
#include "stores/cloud/gcs/gcs_settings.h"

namespace holdfast {
namespace {

void CheckFile(const CredentialFile& file) {
  using Kind = CredentialFile::Kind;
  FUZZ_CHECK(file.token_url.empty() || IsSafeForSecrets(file.token_url));
  FUZZ_CHECK(file.impersonation_url.empty() ||
             IsSafeForSecrets(file.impersonation_url));
  switch (file.kind) {
    case Kind::kServiceAccount:
      FUZZ_CHECK(!file.private_key.empty() && !file.account.empty());
      break;
    case Kind::kAuthorizedUser:
      FUZZ_CHECK(!file.refresh_token.empty() && !file.client_id.empty());
      break;
    case Kind::kExternalAccount:
      FUZZ_CHECK(file.subject.file.empty() != file.subject.url.empty());
      break;
    case Kind::kImpersonated:
      FUZZ_CHECK(file.source != nullptr && !file.impersonation_url.empty());
      CheckFile(*file.source);
      break;
  }
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file =
      holdfast::ParseCredentialFile(holdfast::FuzzText(data, size));
  if (file.ok()) holdfast::CheckFile(*file);
  return 0;
}
