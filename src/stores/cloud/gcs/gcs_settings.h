// The address of Google Cloud Storage and the paying project, from options and
// environment.
//
// Thread-safety: values and pure functions, except for the environment they
// read.
// Errors: InvalidArgument (an invalid bucket name or endpoint).
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/environment.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

struct GcsSettings {
  std::string endpoint;         // "https://storage.googleapis.com", no last '/'
  std::string endpoint_source;  // "option", "STORAGE_EMULATOR_HOST", "Google's"
  std::string user_project;     // "": no project is named
  bool is_emulator = false;     // set by STORAGE_EMULATOR_HOST
};

// The endpoint comes from the first of these that is set: the option,
// STORAGE_EMULATOR_HOST (a host or a URL), TENSORSTORE_GCS_HTTP_URL,
// https://storage.<GOOGLE_CLOUD_UNIVERSE_DOMAIN>. The user project comes from
// the option and, if the requester pays, also from GOOGLE_CLOUD_QUOTA_PROJECT
// and GOOGLE_CLOUD_PROJECT.
Result<GcsSettings> ReadGcsSettings(const RemoteOptions& options,
                                    const Environment& environment);

Status CheckGcsBucketName(std::string_view bucket);
// Checks that a key has 1 to 1024 bytes of UTF-8 without line ends.
Status CheckGcsKey(std::string_view key);
// Returns true if a secret may be sent to `url`: it is https, or on this
// machine.
bool IsSafeForSecrets(std::string_view url);

}  // namespace holdfast
