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

// Returns the options with the system's clock and random bytes where none are
// set.
SaveOptions WithSources(SaveOptions options);

// The options for a tree saved by itself, or for one of several items, in
// `place`: zarr_format 0 becomes 2, and the size limit of data files is the one
// that suits the place unless the caller has chosen another.
SaveOptions ItemOptions(const Place& place, SaveOptions options);
// Applies whichever of the two a save of any format to `place` uses.
SaveOptions OptionsFor(const Place& place, SaveOptions options);

// Orbax's limit for OCDBT data files: 2 GiB, in object stores 400 MiB.
int64_t DefaultDataFileBytes(const Place& directory);

// Null for an empty text; InvalidArgument, naming `what`, for anything else
// that is not an object.
Result<nlohmann::ordered_json> ParseJsonOption(const std::string& text,
                                               const char* what);

// The options for assembling the parts that ranks 0 to `rank_count` save this
// way.
FinishItemOptions FinishOptionsOf(const SaveOptions& options,
                                  const std::string& save_id,
                                  int64_t rank_count);

}  // namespace holdfast
