// Tells whether a directory is a finished checkpoint, and removes what
// interrupted saves left.
//
//   for (const std::string& path : *CleanupTemporaryPaths("/ckpt")) ...
//
// With CommitMode::kRename a directory is unfinished when its name holds
// ".orbax-checkpoint-tmp", with or without the digits that older releases of
// Orbax put behind it. With kMarkerFile it is unfinished while
// `commit_success.txt` is not in it. With kAuto it is when its name says so, or
// `_CHECKPOINT_METADATA` says that it was begun and not committed and there is
// no marker. Symbolic links are neither finished nor unfinished.
//
// Thread-safety: any thread, any process: what a living save of holdfast writes
// is locked, and not touched.
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

// Both are false for a missing path or one that is not a directory.
Result<bool> IsTemporaryCheckpoint(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);
Result<bool> IsCheckpointFinalized(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);

// True when a directory holds a checkpoint, whatever else is in it: it or, in
// old checkpoints, its items have files that only checkpoints have. A name
// proves nothing. False for a root of steps, for bare arrays, and for a missing
// path.
Result<bool> HoldsCheckpoint(const std::string& path);

// Ok for a directory that an overwrite may replace: an empty one, or one of
// Orbax's checkpoints (whole, or begun and never finished) in which every file
// belongs to the checkpoint. Else FailedPrecondition, naming the first file
// that does not: a root of steps, a project with a checkpoint in it, a
// checkpoint with notes beside it.
Status CheckMayReplace(const std::string& path);

// Where nothing is at the path, and an overwrite that was interrupted has put a
// checkpoint aside from it (`<path>.holdfast-replaced`,
// `<path>.holdfast-moved`): gives it its name back, if no save is at it and
// this process may. Openers do so themselves.
void BringBackCheckpoint(const std::string& path);

// Removes a directory, unless a save of holdfast is writing in it: then it is
// false. True when it is gone.
Result<bool> RemoveUnused(const std::string& path);

// The lock that a save of holdfast has on the directory that it writes: while
// it is held, nobody takes the directory for what an interrupted save left. It
// ends with the process, too; a forked child does not have it. No guard in
// object stores, and on file systems without locks.
class SaveLock {
 public:
  // AlreadyExists "another save is writing P"; NotFound.
  static Result<std::unique_ptr<SaveLock>> Take(const std::string& path);
  virtual ~SaveLock() = default;  // as Release
  virtual void Release() = 0;
};

struct CleanupResult {
  std::vector<std::string> removed;   // absolute
  std::vector<std::string> restored;  // see below
  std::vector<std::string> in_use;    // a save is writing them
};
// Looks at the directories in `root` itself, and removes those that
// interrupted saves left: temporary names, in any mode; with kMarkerFile also
// directories whose `_CHECKPOINT_METADATA` says that they were begun and not
// committed. Nothing else is ever removed: no file, no link, no directory of
// any other content, and nothing that a save holds locked. A
// checkpoint that an interrupted overwrite has put aside
// (`<name>.holdfast-replaced`, or `<name>.holdfast-moved` on file systems that
// cannot exchange names) gets its name back, or is removed when the new one is
// finished.
Result<CleanupResult> CleanupTemporaryPaths(
    const std::string& root, CommitMode mode = CommitMode::kAuto);

}  // namespace HOLDFAST_EXPORT
