// Tells whether a directory is a finished checkpoint, and removes the leftovers
// of interrupted saves.
//
//   for (const std::string& path : *CleanupTemporaryPaths("/ckpt")) ...
//
// With CommitMode::kRename, a directory is unfinished if its name contains
// ".orbax-checkpoint-tmp", with or without the digits that older releases of
// Orbax append. With kMarkerFile, it is unfinished while it has no
// `commit_success.txt`. With kAuto, it is unfinished if its name says so, or if
// `_CHECKPOINT_METADATA` says that it was begun and not committed and it has no
// marker. Symbolic links are neither finished nor unfinished.
//
// Thread-safety: any thread, any process: the directory of a running holdfast
// save is locked, and left alone.
// Ownership: a SaveLock owns its lock, never the directory. Units: none.
// Errors: those of the file system, with the path.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// Both return false for a missing path, and for one that is not a directory.
Result<bool> IsTemporaryCheckpoint(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);
Result<bool> IsCheckpointFinalized(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);

// True when a directory holds a checkpoint, whatever else is in it: it, or in
// old checkpoints its items, have files that only checkpoints have. Its name
// does not matter. False for a root of steps, for bare arrays, and for a
// missing path.
Result<bool> HoldsCheckpoint(const std::string& path);

// Ok for a directory that an overwrite may replace: an empty one, or an Orbax
// checkpoint (complete, or begun and never finished) in which every file
// belongs to the checkpoint. Otherwise FailedPrecondition, naming the first
// file that does not belong: for a root of steps, a project with a checkpoint
// in it, or a checkpoint with notes next to it.
Status CheckMayReplace(const std::string& path);

// If nothing exists at the path, and an interrupted overwrite has set its
// checkpoint aside (`<path>.holdfast-replaced`, `<path>.holdfast-moved`),
// renames that checkpoint back, unless a save is using it or this process lacks
// permission. Openers call this themselves.
void BringBackCheckpoint(const std::string& path);

// Removes a directory and returns true, or returns false if a save of holdfast
// is writing in it.
Result<bool> RemoveUnused(const std::string& path);

// The lock that a save of holdfast holds on the directory that it writes. While
// the lock is held, no process treats the directory as the leftover of an
// interrupted save. The lock ends with the process; a forked child does not
// hold it. It gives no protection in object stores, and on file systems without
// locks.
class SaveLock {
 public:
  // AlreadyExists "another save is writing P"; NotFound.
  static Result<std::unique_ptr<SaveLock>> Take(const std::string& path);
  virtual ~SaveLock() = default;  // as Release
  virtual void Release() = 0;
};

struct CleanupResult {
  std::vector<std::string> removed;   // absolute
  std::vector<std::string> restored;  // see CleanupTemporaryPaths
  std::vector<std::string> in_use;    // a save is writing to these
};
// Looks at the directories directly in `root`, and removes those that
// interrupted saves left: in any mode, directories with temporary names; with
// kMarkerFile also those whose `_CHECKPOINT_METADATA` says that they were begun
// and not committed. Nothing else is ever removed: no file, no link, no
// directory with other contents, and nothing that a save has locked. A
// checkpoint that an interrupted overwrite has set aside
// (`<name>.holdfast-replaced`, or `<name>.holdfast-moved` on file systems that
// cannot exchange names) gets its name back, or is removed if the new
// checkpoint is finished.
Result<CleanupResult> CleanupTemporaryPaths(
    const std::string& root, CommitMode mode = CommitMode::kAuto);

}  // namespace HOLDFAST_EXPORT
