// Repairs: edits the files of a damaged checkpoint, through RepairedFiles, so
// that the readers of intact checkpoints can open it. Nothing is invented:
// files that cannot be trusted are hidden and reported.
//
// - Orbax: names of unfinished saves, metadata that do not parse or differ from
//   their checksums, databases (database_repair.h), and lists of checksums
//   (hidden and replaced files are removed from them).
// - safetensors: files that are shorter than their header says; indexes that
//   name missing files.
// - zip archives (npz, torch.save) without their directory.
//
// Thread-safety: one thread per checkpoint. Ownership: edits `files`.
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
  std::vector<LostLeaf> lost;  // that no reader will list
  std::vector<std::string> notes;
  // Names of leaves that must have existed.
  std::set<std::string> expected_names;
  bool names_are_known = true;
  // False if a list of checksums is damaged, or is missing although something
  // mentions it.
  bool checksums_are_known = true;
  // No intact file says which chunks were stored, so a missing chunk counts as
  // lost.
  bool refuses_missing = false;
  std::string custom_metadata;  // of a hidden `_CHECKPOINT_METADATA`
};

using FilesPtr = std::shared_ptr<RepairedFiles>;

Status RepairOrbax(const FilesPtr& files, const CancelToken* cancel,
                   Repairs& repairs);
Status RepairWeights(const FilesPtr& files, Repairs& repairs);
Status RepairZips(const FilesPtr& files, const CancelToken* cancel,
                  Repairs& repairs);

}  // namespace holdfast
