// Writes one pytree item. Every save uses these functions, so that no save
// omits a step: WriteItem writes the values and then the files that describe
// them; CloseItem adopts what others have left in the directory, and completes
// the item with digests and durable names.
//
// Thread-safety: one call per SaveCall at a time.
// Ownership: borrows the plan and its tree for the call.
// Errors: those of Save.
#pragma once

#include <string>
#include <vector>

#include "engine/commit/file_writer.h"
#include "engine/format/fingerprints_file.h"
#include "engine/save/float_sums.h"
#include "engine/save/save_plan.h"
#include "engine/save/value_sink.h"
#include "ground/fingerprint/sum.h"
#include "ground/run/run.h"
#include "holdfast/pending_save.h"
#include "stores/place/place.h"

namespace holdfast {

// A running save: its plan, its threads, and its measurements.
struct SaveCall {
  // `begun` was started when the caller's call began.
  SaveCall(const SavePlan& save_plan, const Stopwatch& begun);
  // Call when everything is written.
  SaveResult Result();

  const SavePlan& plan;
  Run run;
  Stopwatch watch;
  Stopwatch total;
  Stats stats;
  // With SaveOptions::fingerprints: the sums of the elements that were written
  // of each of plan.arrays.
  std::vector<FingerprintSum> sums;
  FloatSums floats;
};

// Fails early and clearly when the values cannot fit on the disk of
// `directory`; running out of space later is handled as well.
Status CheckFreeSpace(const SavePlan& plan, const Place& directory);

// Returns the options for writing the plan's values into the store of `files`.
// Callers may change them.
ValueSinkOptions SinkOptionsOf(const SavePlan& plan, const FileWriter& files);
// Writes only the values, synced if `options` says so.
Status WriteValues(const ValueSinkOptions& options, FileWriter& files,
                   SaveCall& call);

// Writes everything except what CloseItem writes, synced if `files` syncs
// (names excepted). With `part`, writes the share of one of several processes:
// its values in its own database, its array metadata, and on the primary also
// the files about the complete item. The last file that it writes then
// describes all this for item_parts.h, and contains the digests in `files`;
// names are synced too.
Status WriteItem(const ProcessPart* part, FileWriter& files, SaveCall& call);

// Finishes the item. If the options say so, adopts the files in the directory
// that `files` has not written; then writes the digests and syncs the names.
Status CloseItem(const Place& directory, const FinishItemOptions& options,
                 FileWriter& files);

// Writes the fingerprints of the complete item.
Status WriteFingerprints(const FingerprintTexts& tensors, FileWriter& files);

// Returns "ocdbt.process_<id>".
std::string ProcessDirectoryOf(const ProcessPart& part);

}  // namespace holdfast
