// HubSettings: the hub's address, the user's token and the location of the
// cache on this machine, read from the environment as huggingface_hub reads it.
//
// Thread-safety: reads the environment. Errors: InvalidArgument (HF_ENDPOINT is
// not a valid address), FailedPrecondition (an invalid token). No message
// contains a token.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "stores/cloud/environment.h"
#include "stores/cloud/remote_options.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct HubSettings {
  std::string endpoint;      // HF_ENDPOINT, without a trailing slash
  std::string token;         // "": none
  std::string token_source;  // "HF_TOKEN", the path of a file, or "none"

  HttpHeaders headers() const;
};

// Reads the settings. The token comes from HF_TOKEN or, without it, from the
// file HF_TOKEN_PATH or HF_HOME/token.
Result<HubSettings> ReadHubSettings(const RemoteOptions& options,
                                    const Environment& environment);

// Returns true if HF_HUB_OFFLINE is set: no network request is allowed then.
bool IsHubOffline(const Environment& environment);

// Returns HF_HUB_CACHE; without it HF_HOME/hub; without that
// ~/.cache/huggingface/hub. "" if there is no home directory.
std::string HubCacheDirectory(const Environment& environment);

}  // namespace holdfast
