// Writing one pytree item. Every save goes this way, so that none forgets a
// step: WriteItem puts the values where they belong and then the files that
// describe them; CloseItem takes up what others have left in the directory and
// makes it whole with the digests and durable names.
//
// Thread-safety: one call a SaveCall at a time.
// Ownership: borrows the plan and its tree for the call.
// Errors: those of Save.
#pragma once

#include <string>
#include <vector>

#include "engine/commit/file_writer.h"
#include "engine/format/fingerprints_file.h"
#include "engine/save/save_plan.h"
#include "engine/save/value_sink.h"
#include "ground/fingerprint/sum.h"
#include "ground/run/run.h"
#include "holdfast/pending_save.h"
#include "stores/place/place.h"

namespace holdfast {

// A save that runs: what it follows, its threads, and what it has measured.
struct SaveCall {
  // `begun` when the caller called.
  SaveCall(const SavePlan& save_plan, const Stopwatch& begun);
  // When all is written.
  SaveResult Result();

  const SavePlan& plan;
  Run run;
  Stopwatch watch;
  Stopwatch total;
  Stats stats;
  // The sums of the elements that were written of plan.arrays, with
  // SaveOptions::fingerprints.
  std::vector<FingerprintSum> sums;
};

// An early, clear refusal when the values cannot fit on the disk of
// `directory`; running out later is handled as well.
Status CheckFreeSpace(const SavePlan& plan, const Place& directory);

// How the plan's values go into the store of `files`, unless a caller changes
// it.
ValueSinkOptions SinkOptionsOf(const SavePlan& plan, const FileWriter& files);
// Writes only the values, synced where `options` says so.
Status WriteValues(const ValueSinkOptions& options, FileWriter& files,
                   SaveCall& call);

// Everything but what CloseItem does, synced where `files` says so (names
// excepted). With `part`, what one of several processes writes: its values in a
// database of its own, its array metadata, on the primary also the files about
// all; last the file that tells item_parts.h about them, with the digests that
// `files` had. Names are synced too then.
Status WriteItem(const ProcessPart* part, FileWriter& files, SaveCall& call);

// Finishes the item: adopts the directory's files that `files` has not written,
// if options say so; then the digests; then the names.
Status CloseItem(const Place& directory, const FinishItemOptions& options,
                 FileWriter& files);

// Those of the whole item.
Status WriteFingerprints(const FingerprintTexts& tensors, FileWriter& files);

// "ocdbt.process_<id>".
std::string ProcessDirectoryOf(const ProcessPart& part);

}  // namespace holdfast
