// Writing one pytree item: its values, then the files that describe them.
//
// Thread-safety: one call a Run at a time.
// Ownership: borrows the plan's tree for the call.
// Errors: those of Save.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/file_writer.h"
#include "checkpoint/run.h"
#include "checkpoint/save_plan.h"

namespace holdfast {

// The options with the system's clock and random bytes where none are given.
SaveOptions WithSources(SaveOptions options);

// Null for empty text; InvalidArgument, naming `what`, for anything that is not
// an object.
Result<nlohmann::ordered_json> ParseJsonObject(const std::string& text,
                                               const char* what);

// An early, clear refusal when the values cannot fit on the disk of
// `directory`; running out later is handled as well.
Status CheckFreeSpace(const SavePlan& plan, const SaveOptions& options,
                      const std::string& directory);

// Writes everything but the digests, which `files` remembers, and syncs it
// where the options say so (names excepted). `watch` has run since the call
// began. REQUIRES: options WithSources.
Status WriteItem(const SavePlan& plan, const SaveOptions& options,
                 const nlohmann::ordered_json& custom_metadata,
                 FileWriter& files, Run& run, Stopwatch& watch, Stats& stats);

}  // namespace holdfast
