// Resolves a save's options.
//
// Thread-safety: pure functions. Errors: InvalidArgument for malformed texts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "holdfast/options.h"
#include "holdfast/pending_save.h"
#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Returns the options, with the system's clock and random bytes if the caller
// has set no others.
SaveOptions WithSources(SaveOptions options);

// Returns the options for an item in `place`, saved by itself or with others.
// zarr_format 0 becomes 2, and OptionsFor is applied.
SaveOptions ItemOptions(const Place& place, SaveOptions options);
// Returns the options with the size limit of data files that suits `place`
// (DefaultDataFileBytes), unless the caller has chosen another limit.
SaveOptions OptionsFor(const Place& place, SaveOptions options);

// Returns Orbax's limit for OCDBT data files: 2 GiB, in object stores 400 MiB.
int64_t DefaultDataFileBytes(const Place& directory);

// Parses a JSON object. Returns null for an empty text, and InvalidArgument,
// naming `what`, for any other text that is not an object.
Result<nlohmann::ordered_json> ParseJsonOption(const std::string& text,
                                               const char* what);

// Returns the options for assembling the parts that `rank_count` ranks save
// with `options`.
FinishItemOptions FinishOptionsOf(const SaveOptions& options,
                                  const std::string& save_id,
                                  int64_t rank_count);

}  // namespace holdfast
