// Where access tokens come from: one function for each kind of credentials.
//
// Thread-safety: a source may be asked by one thread at a time. Ownership: a
// source keeps the client and what it was made of alive.
// Units: nanoseconds since 1970.
// Errors: PermissionDenied (refused; the message says by whom and why, and
// what to do), InvalidArgument (a file without credentials), Unavailable
// (an endpoint that does not answer), DataLoss (an answer without a token).
// No message holds a token, a key or an assertion.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/status.h"
#include "stores/cloud/fresh_secret.h"
#include "stores/cloud/gcs/credential_file.h"
#include "stores/cloud/gcs/gcs_settings.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct GcsToken {
  std::string text;        // "": send none
  int64_t expires_ns = 0;  // 0: never
};

using TokenFetch = std::function<Result<GcsToken>()>;

struct TokenSource {
  std::string where;    // "GOOGLE_APPLICATION_CREDENTIALS (/home/…/key.json)"
  std::string kind;     // "service account", "anonymous", …
  std::string account;  // e-mail, where known
  std::string project;  // whom to bill, where the credentials say
  bool is_test_token = false;  // may go over plain http
  TokenFetch fetch;
};

TokenFetch FetchFromFile(std::shared_ptr<const CredentialFile> file,
                         std::shared_ptr<HttpClient> client, UnixClock clock);
// `base`: "http://metadata.google.internal", without '/' last.
TokenFetch FetchFromMetadataServer(std::string base,
                                   std::shared_ptr<HttpClient> client,
                                   UnixClock clock);

// Takes the first of: anonymous (asked for), GOOGLE_AUTH_TOKEN_FOR_TESTING,
// nothing for an emulator, GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the
// metadata server. Otherwise anonymous, and `where` lists the places looked at.
// Existing but useless credentials are an error: nothing else is tried. Asks
// the metadata server, which may take 3 seconds where no such server exists.
Result<TokenSource> FindTokenSource(const Environment& environment,
                                    bool anonymous, bool is_emulator,
                                    const std::shared_ptr<HttpClient>& client,
                                    const UnixClock& clock);

// Reads the answer of a token endpoint. `now_ns` is when it was asked.
Result<GcsToken> ParseTokenAnswer(std::string_view json, int64_t now_ns);
// Reads the answer of generateAccessToken.
Result<GcsToken> ParseImpersonationAnswer(std::string_view json);
// The token in the text that a file or URL of a workload identity holds.
Result<std::string> ParseSubjectToken(std::string_view text,
                                      const std::string& json_field);

}  // namespace holdfast
