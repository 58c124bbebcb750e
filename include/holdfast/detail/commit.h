// Tells whether a directory is a finished checkpoint, and removes the leftovers
// of interrupted saves.
//
//   auto cleaned = CleanupTemporaryPaths("/ckpt");
//   for (const std::string& path : cleaned->removed) ...
//
// A directory is unfinished
// - with CommitMode::kRename, if its name contains ".orbax-checkpoint-tmp",
//   with or without the digits that older releases of Orbax append;
// - with kMarkerFile, while it has no `commit_success.txt`;
// - with kAuto, if its name says so, or if it has no `commit_success.txt` and
//   `_CHECKPOINT_METADATA` says that it was begun and not committed.
// Symbolic links are neither finished nor unfinished.
//
// Thread-safety: any thread, any process. A running holdfast save locks its
// directory; locked directories are left alone.
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

// Return whether the directory at `path` is unfinished, or finished. Both
// return false for a missing path, and for a path that is not a directory.
Result<bool> IsTemporaryCheckpoint(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);
Result<bool> IsCheckpointFinalized(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);

// Returns true if a directory holds a checkpoint, whatever its name and
// whatever else is in it: the directory itself, or one of its items in an old
// checkpoint, has files that only checkpoints have. False for a root of steps,
// for bare arrays, and for a missing path.
Result<bool> HoldsCheckpoint(const std::string& path);

// Returns ok for a directory that an overwrite may replace: an empty directory,
// or an Orbax checkpoint (complete, or begun and never finished) in which every
// file belongs to the checkpoint. Otherwise FailedPrecondition, naming the
// first file that does not belong: for example for a root of steps, for a
// project with a checkpoint in it, or for a checkpoint with the user's notes in
// it.
Status CheckMayReplace(const std::string& path);

// Renames a checkpoint back to `path` if nothing exists there and an
// interrupted overwrite has set the checkpoint aside
// (`<path>.holdfast-replaced`, `<path>.holdfast-moved`). Does nothing if a save
// is using that checkpoint or this process lacks permission. Open and other
// readers call this themselves.
void BringBackCheckpoint(const std::string& path);

// Removes a directory and returns true; returns false if a holdfast save is
// writing in it.
Result<bool> RemoveUnused(const std::string& path);

// The lock that a holdfast save holds on the directory that it writes. While
// the lock is held, no process treats the directory as the leftover of an
// interrupted save. The lock ends with the process; a forked child does not
// hold it. In object stores, and on file systems without locks, it has no
// effect.
class SaveLock {
 public:
  // Locks the directory at `path`. AlreadyExists "another save is writing P";
  // NotFound.
  static Result<std::unique_ptr<SaveLock>> Take(const std::string& path);
  virtual ~SaveLock() = default;  // releases the lock
  virtual void Release() = 0;
};

struct CleanupResult {
  std::vector<std::string> removed;   // absolute
  std::vector<std::string> restored;  // see CleanupTemporaryPaths
  std::vector<std::string> in_use;    // a save is writing to these
};
// Removes the directories directly in `root` that interrupted saves left: in
// any mode, directories with temporary names; with kMarkerFile, also
// directories whose `_CHECKPOINT_METADATA` says that they were begun and not
// committed. Never removes anything else: files, links, directories with other
// contents, or what a save has locked.
//
// A checkpoint that an interrupted overwrite has set aside
// (`<name>.holdfast-replaced`, or `<name>.holdfast-moved` on file systems that
// cannot exchange names) gets its name back, or is removed if the new
// checkpoint is finished.
Result<CleanupResult> CleanupTemporaryPaths(
    const std::string& root, CommitMode mode = CommitMode::kAuto);

}  // namespace HOLDFAST_EXPORT
