// Turns failed answers of Google Cloud Storage into messages that say what to
// do.
//
// Thread-safety: pure functions. Units: none.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct GcsCallName {
  std::string_view action;      // "read", "write", "list", "delete", "copy"
  std::string_view url;         // "gs://bucket/key"
  std::string_view permission;  // "storage.objects.get"
  std::string_view identity;    // whose credentials: "service account a@b (…)"
};

// Returns the Status for a failed answer. REQUIRES: its HTTP status is not 2xx.
Status GcsError(const GcsCallName& call, const HttpResponse& answer);
Status GcsError(const GcsCallName& call, int http_status,
                std::string_view body);

}  // namespace holdfast
