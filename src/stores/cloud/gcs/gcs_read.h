// Reads objects in Google Cloud Storage: ranges, complete objects, metadata.
//
// Thread-safety, units, errors: those of stores/cloud/bucket.h.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/gcs/gcs_api.h"
#include "stores/cloud/gcs/gcs_json.h"

namespace holdfast {

Result<GcsObject> GcsHead(GcsApi& api, std::string_view key);

// Reads ranges. A read to an object's end first requests `get_bytes_max` bytes,
// then the rest from the same generation.
std::vector<Result<GetResult>> GcsGet(GcsApi& api,
                                      std::span<const GetRequest> requests,
                                      uint64_t get_bytes_max,
                                      const CancelToken* cancel);

}  // namespace holdfast
