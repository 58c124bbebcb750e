// The JSON files of Google's application-default credentials.
//
// Thread-safety: values and pure functions. Units: none.
// Errors: InvalidArgument (no JSON, a member missing, a token endpoint that is
// neither https nor this machine), Unimplemented (a kind that is not supported,
// by its name). No message holds a value of the file but e-mails and kinds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr size_t kCredentialFileBytesMax = 256 << 10;

// The place of an external account's own token.
struct SubjectTokenSource {
  std::string file;  // or:
  std::string url;
  std::map<std::string, std::string> url_headers;
  std::string json_field;  // "": the whole text is the token
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
  std::string project;  // whom to bill: quota_project_id, else project_id
  std::string account;  // e-mail; "" where the file does not say

  // kServiceAccount.
  std::string private_key;
  std::string private_key_id;
  // kAuthorizedUser; of kExternalAccount id and secret, where it has them.
  std::string client_id;
  std::string client_secret;
  std::string refresh_token;
  // kExternalAccount.
  std::string audience;
  std::string subject_token_type;
  std::string workforce_user_project;
  SubjectTokenSource subject;
  // For kImpersonated; for kExternalAccount "" without one.
  std::string impersonation_url;
  std::vector<std::string> delegates;
  std::shared_ptr<const CredentialFile> source;  // kImpersonated
};

// "service account", "user", "workload identity federation", …
std::string_view CredentialKindName(CredentialFile::Kind kind);

Result<CredentialFile> ParseCredentialFile(std::string_view json);

}  // namespace holdfast
