// Writing one pytree item: its values, then the files that describe them.
//
// Thread-safety: one call a Run at a time.
// Ownership: borrows the plan's tree for the call.
// Errors: those of Save.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/commit/file_writer.h"
#include "checkpoint/save/save_plan.h"
#include "holdfast/pending_save.h"
#include "run/run.h"

namespace holdfast {

// The options with the system's clock and random bytes where none are given.
SaveOptions WithSources(SaveOptions options);

// Those of a tree saved by itself, or of an item of several: zarr_format 0
// is 2.
SaveOptions ItemOptions(SaveOptions options);

// Null for empty text; InvalidArgument, naming `what`, for anything that is not
// an object.
Result<nlohmann::ordered_json> ParseJsonObject(const std::string& text,
                                               const char* what);

// An early, clear refusal when the values cannot fit on the disk of
// `directory`; running out later is handled as well.
// Orbax's bound on OCDBT data files: 2 GiB, in object stores 400 MiB.
int64_t DefaultDataFileBytes(const std::string& directory);
// What a save to `path` does of `options`: in an object store nothing is
// synced (writes are queued, and flushed before the commit), and data files
// have the bound that suits it if nobody has chosen another.
SaveOptions OptionsFor(const std::string& path, SaveOptions options);

Status CheckFreeSpace(const SavePlan& plan, const SaveOptions& options,
                      const std::string& directory);

// Writes everything but the digests, which `files` remembers, and syncs it
// where the options say so (names excepted). `watch` has run since the call
// began. REQUIRES: options WithSources.
Status WriteItem(const SavePlan& plan, const SaveOptions& options,
                 const nlohmann::ordered_json& custom_metadata,
                 FileWriter& files, Run& run, Stopwatch& watch, Stats& stats);

// What one of several processes writes of an item: its values in a database of
// its own, its array metadata, on the primary also the files about all; last
// the file that tells item_parts.h about them. Names are synced too.
Status WriteItemPart(const SavePlan& plan, const SaveOptions& options,
                     const ProcessPart& part,
                     const nlohmann::ordered_json& custom_metadata,
                     FileWriter& files, Run& run, Stopwatch& watch,
                     Stats& stats);

// "ocdbt.process_<id>".
std::string ProcessDirectoryOf(const ProcessPart& part);
// InvalidArgument for ids and ranks that cannot be in a file name.
Status CheckProcessPart(const ProcessPart& part);

}  // namespace holdfast
