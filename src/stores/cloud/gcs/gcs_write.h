// Writes complete objects to Google Cloud Storage, each in one request, and
// deletes and copies objects.
//
// A conditional write stores an id in the object's metadata. When the condition
// fails after the write was sent more than once, the id shows whether our own
// first attempt had succeeded.
// Thread-safety, units, errors: those of stores/cloud/bucket.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/gcs/gcs_api.h"

namespace holdfast {

// Returns "ifGenerationMatch" if the condition needs it.
GcsParameters ConditionParameters(const Condition& condition);

// Writes an object and returns its new generation.
Result<std::string> GcsPut(GcsApi& api, std::string_view key,
                           std::span<const std::string_view> pieces,
                           const Condition& condition);
Result<std::string> GcsCopy(GcsApi& api, std::string_view source,
                            std::string_view target, const Condition& condition,
                            const std::string& source_version);
Status GcsDelete(GcsApi& api, std::string_view key, const Condition& condition);
// Deletes objects in batches. Tries all keys, then returns the first failure.
Status GcsDeleteAll(GcsApi& api, std::span<const std::string> keys);

// Returns DataLoss if what the server stored differs from what was sent in size
// or in crc32c (if the server reports one).
Status CheckStored(const GcsApi& api, std::string_view key, uint64_t got_bytes,
                   std::string_view got_crc32c, uint64_t sent_bytes,
                   uint32_t sent_crc32c);
// Returns the checksum as Google writes it: big-endian, in base64.
std::string GcsCrc32cText(uint32_t crc);

}  // namespace holdfast
