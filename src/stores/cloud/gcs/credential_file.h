// The JSON files of Google's application-default credentials.
//
// Thread-safety: values and pure functions. Units: none.
// Errors: InvalidArgument (not JSON, a missing member, a token endpoint that is
// neither https nor on this machine), Unimplemented (an unsupported kind, which
// the message names). Messages contain no values from the file except e-mails
// and kinds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr size_t kCredentialFileBytesMax = 256 << 10;

// Where an external account's own token is stored: in `file` or at `url`.
struct SubjectTokenSource {
  std::string file;  // "": at `url`
  std::string url;
  std::map<std::string, std::string> url_headers;
  std::string json_field;  // "": the entire text is the token
};

struct CredentialFile {
  enum class Kind {
    kServiceAccount,
    kAuthorizedUser,
    kExternalAccount,
    kImpersonated,
  };
  Kind kind = Kind::kServiceAccount;
  std::string token_url;
  std::string project;  // to bill: quota_project_id or project_id
  std::string account;  // e-mail; "" if the file has none

  // For kServiceAccount.
  std::string private_key;
  std::string private_key_id;
  // For kAuthorizedUser. kExternalAccount may have the id and the secret, too.
  std::string client_id;
  std::string client_secret;
  std::string refresh_token;
  // For kExternalAccount.
  std::string audience;
  std::string subject_token_type;
  std::string workforce_user_project;
  SubjectTokenSource subject;
  // For kImpersonated and kExternalAccount; "" if an external account
  // impersonates nobody.
  std::string impersonation_url;
  std::vector<std::string> delegates;
  std::shared_ptr<const CredentialFile> source;  // kImpersonated
};

// Returns "service account", "user", "workload identity federation", …
std::string_view CredentialKindName(CredentialFile::Kind kind);

Result<CredentialFile> ParseCredentialFile(std::string_view json);

}  // namespace holdfast
