// RemoteOptions: how object stores are reached. Empty fields are taken from the
// environment, as the stores' own tools read it.
//
// Thread-safety: values. Units: at the end of the names.
#pragma once

#include <string>

#include "stores/http/http_client.h"

namespace holdfast {

struct RemoteOptions {
  HttpOptions http;
  // If empty, S3 uses AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's
  // endpoint, or Amazon's; GCS uses STORAGE_EMULATOR_HOST,
  // TENSORSTORE_GCS_HTTP_URL, or Google's.
  std::string endpoint;
  // S3: if empty, AWS_REGION, AWS_DEFAULT_REGION, or the profile's region.
  std::string region;
  std::string profile;     // S3: if empty, AWS_PROFILE
  bool anonymous = false;  // sign nothing, send no token
  // S3: where the bucket is named in URLs. kAuto means in the host name if the
  // endpoint is Amazon's and the bucket's name allows it, and in the path
  // otherwise.
  enum class Style { kAuto, kPath, kVirtualHost } style = Style::kAuto;
  bool requester_pays = false;
  std::string user_project;  // GCS
};

}  // namespace holdfast
