// Repairs: what is done to the files of a damaged checkpoint, seen through
// RepairedFiles, so that the readers of whole checkpoints can open it. Nothing
// is made up: what cannot be trusted is hidden, and said.
//
// - Orbax: names of unfinished saves, metadata that do not parse or differ from
//   their checksums, databases (database_repair.h), lists of checksums, which
//   then no longer speak of what was hidden or replaced.
// - safetensors: files that are shorter than their header says; indexes of
//   files that are not there.
// - zip archives (npz, torch.save) without their directory.
//
// Thread-safety: one thread a checkpoint. Ownership: edits `files`.
// Units: bytes. Errors: Cancelled, ResourceExhausted, and failures of the store
// other than damage.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "holdfast/tools/rescue.h"
#include "tools/rescue/repaired_files.h"

namespace holdfast {

struct Repairs {
  std::vector<LostLeaf> lost;  // no reader will see them
  std::vector<std::string> notes;
  // Names of leaves that there must have been.
  std::set<std::string> expected_names;
  bool names_are_known = true;
  // A list of checksums is damaged, or gone where something tells of it.
  bool checksums_are_known = true;
  // Nothing whole says which chunks were stored, so that one which is not there
  // is lost.
  bool refuses_missing = false;
  std::string custom_metadata;  // of a `_CHECKPOINT_METADATA` that is hidden
};

using FilesPtr = std::shared_ptr<RepairedFiles>;

Status RepairOrbax(const FilesPtr& files, const CancelToken* cancel,
                   Repairs& repairs);
Status RepairWeights(const FilesPtr& files, Repairs& repairs);
Status RepairZips(const FilesPtr& files, const CancelToken* cancel,
                  Repairs& repairs);

}  // namespace holdfast
