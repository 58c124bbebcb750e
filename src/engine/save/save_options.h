// The meaning of a save's options.
//
// Thread-safety: pure functions. Errors: InvalidArgument for texts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "holdfast/options.h"
#include "holdfast/pending_save.h"
#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// The options with the system's clock and random bytes where none are given.
SaveOptions WithSources(SaveOptions options);

// Those of a tree saved by itself, or of an item of several, into `place`:
// zarr_format 0 is 2, and data files have the bound that suits the place if
// nobody has chosen another.
SaveOptions ItemOptions(const Place& place, SaveOptions options);
// Whichever of the last two a save of any format to `place` uses.
SaveOptions OptionsFor(const Place& place, SaveOptions options);

// Orbax's bound on OCDBT data files: 2 GiB, in object stores 400 MiB.
int64_t DefaultDataFileBytes(const Place& directory);

// Null for empty text; InvalidArgument, naming `what`, for anything that is not
// an object.
Result<nlohmann::ordered_json> ParseJsonOption(const std::string& text,
                                               const char* what);

// The options to put together the parts that ranks 0 to `rank_count` save so.
FinishItemOptions FinishOptionsOf(const SaveOptions& options,
                                  const std::string& save_id,
                                  int64_t rank_count);

}  // namespace holdfast
