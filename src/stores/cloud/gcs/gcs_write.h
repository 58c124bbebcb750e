// Writing whole objects of Google Cloud Storage in one request, deleting and
// copying them.
//
// A write under a condition carries an id of its own in the object's metadata:
// when it fails for its condition after having been sent more than once, the id
// tells whether it was our own first attempt that won.
// Thread-safety, units, errors: of stores/cloud/bucket.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/gcs/gcs_api.h"

namespace holdfast {

// "ifGenerationMatch", where the condition asks for it.
GcsParameters ConditionParameters(const Condition& condition);

// The new generation.
Result<std::string> GcsPut(GcsApi& api, std::string_view key,
                           std::span<const std::string_view> pieces,
                           const Condition& condition);
Result<std::string> GcsCopy(GcsApi& api, std::string_view source,
                            std::string_view target, const Condition& condition,
                            const std::string& source_version);
Status GcsDelete(GcsApi& api, std::string_view key, const Condition& condition);
// Deletes in batches; returns the first failure, after all have been tried.
Status GcsDeleteAll(GcsApi& api, std::span<const std::string> keys);

// DataLoss when what the server stored has another size or crc32c (absent: not
// told) than what was sent.
Status CheckStored(const GcsApi& api, std::string_view key, uint64_t got_bytes,
                   std::string_view got_crc32c, uint64_t sent_bytes,
                   uint32_t sent_crc32c);
// The checksum as Google writes it: big-endian, in base64.
std::string GcsCrc32cText(uint32_t crc);

}  // namespace holdfast
