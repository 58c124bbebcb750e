// HubSettings: where the hub is, who asks, and where its files are kept on this
// machine, read from the environment as huggingface_hub reads it.
//
// Thread-safety: reads the environment. Errors: InvalidArgument (HF_ENDPOINT is
// not an address), FailedPrecondition (a token that cannot be one); a token is
// in no message.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "stores/cloud/environment.h"
#include "stores/cloud/remote_options.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct HubSettings {
  std::string endpoint;      // HF_ENDPOINT; without a slash at its end
  std::string token;         // "": none
  std::string token_source;  // "HF_TOKEN", the path of a file, or "none"

  HttpHeaders headers() const;
};

// The token: HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token.
Result<HubSettings> ReadHubSettings(const RemoteOptions& options,
                                    const Environment& environment);

// HF_HUB_OFFLINE: nothing may be asked of the network.
bool IsHubOffline(const Environment& environment);

// HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub. "": there is
// no home.
std::string HubCacheDirectory(const Environment& environment);

}  // namespace holdfast
