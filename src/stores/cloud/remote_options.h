// RemoteOptions: how object stores are reached. Empty fields come from the
// environment, as the stores' own tools read it.
//
// Thread-safety: values. Units: last in the names.
#pragma once

#include <string>

#include "stores/http/http_client.h"

namespace holdfast {

struct RemoteOptions {
  HttpOptions http;
  // S3: "": AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, Amazon's.
  // GCS: "": STORAGE_EMULATOR_HOST, TENSORSTORE_GCS_HTTP_URL, Google's.
  std::string endpoint;
  // S3: "": AWS_REGION, AWS_DEFAULT_REGION, the profile's.
  std::string region;
  std::string profile;     // S3: "": AWS_PROFILE
  bool anonymous = false;  // sign nothing, send no token
  // S3: the bucket in the host's name; absent style: where the endpoint is
  // Amazon's and the name allows it.
  enum class Style { kAuto, kPath, kVirtualHost } style = Style::kAuto;
  bool requester_pays = false;
  std::string user_project;  // GCS
};

}  // namespace holdfast
