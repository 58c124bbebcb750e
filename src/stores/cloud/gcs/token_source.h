// Sources of access tokens, one for each kind of credentials.
//
// Thread-safety: one thread at a time may use a source. Ownership: a source
// shares the client and everything else that it was made from.
// Units: nanoseconds since 1970.
// Errors: PermissionDenied (refused; the message says by which server and why,
// and what to do), InvalidArgument (a file without credentials), Unavailable
// (an endpoint that does not answer), DataLoss (an answer without a token). No
// message contains a token, a key or an assertion.
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
  std::string text;        // "": no token is sent
  int64_t expires_ns = 0;  // 0: never
};

using TokenFetch = std::function<Result<GcsToken>()>;

struct TokenSource {
  std::string where;    // "GOOGLE_APPLICATION_CREDENTIALS (/home/…/key.json)"
  std::string kind;     // "service account", "anonymous", …
  std::string account;  // e-mail, where known
  std::string project;  // to bill, if the credentials say
  bool is_test_token = false;  // may go over plain http
  TokenFetch fetch;
};

TokenFetch FetchFromFile(std::shared_ptr<const CredentialFile> file,
                         std::shared_ptr<HttpClient> client, UnixClock clock);
// `base` is "http://metadata.google.internal", without a trailing '/'.
TokenFetch FetchFromMetadataServer(std::string base,
                                   std::shared_ptr<HttpClient> client,
                                   UnixClock clock);

// Uses the first of these that applies: anonymous (if requested),
// GOOGLE_AUTH_TOKEN_FOR_TESTING, no token for an emulator,
// GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the metadata server. Without
// any of them, access is anonymous, and `where` lists the places that were
// tried.
//
// Credentials that exist but are unusable are an error, and no further place is
// tried. Looking for a missing metadata server may take 3 seconds.
Result<TokenSource> FindTokenSource(const Environment& environment,
                                    bool anonymous, bool is_emulator,
                                    const std::shared_ptr<HttpClient>& client,
                                    const UnixClock& clock);

// Parses a token endpoint's answer. `now_ns` is the time of the request.
Result<GcsToken> ParseTokenAnswer(std::string_view json, int64_t now_ns);
// Parses an answer to generateAccessToken.
Result<GcsToken> ParseImpersonationAnswer(std::string_view json);
// Returns the token in the text from a workload identity's file or URL.
Result<std::string> ParseSubjectToken(std::string_view text,
                                      const std::string& json_field);

}  // namespace holdfast
