// Whether a directory is a finished checkpoint, and the removal of what
// interrupted saves have left.
//
//   for (const std::string& path : *CleanupTemporaryPaths("/ckpt")) ...
//
// With CommitMode::kRename (and kAuto) a directory is unfinished when its name
// holds ".orbax-checkpoint-tmp", with or without the digits that older releases
// of Orbax put behind it. With kMarkerFile it is unfinished while
// `commit_success.txt` is not in it. Symbolic links are neither.
//
// Thread-safety: any thread, any process: what a living save of holdfast writes
// is locked, and not touched.
// Ownership: none. Units: none.
// Errors: NotFound, and those of the file system, with the path.
#pragma once

#include <string>
#include <vector>

#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// Whether `path` is a directory that a save has not finished; it alone, the
// checkpoints below it do not count.
Result<bool> IsTemporaryCheckpoint(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);
// Whether `path` is a directory that is finished. False, too, for what is not
// there.
Result<bool> IsCheckpointFinalized(const std::string& path,
                                   CommitMode mode = CommitMode::kAuto);

struct CleanupResult {
  std::vector<std::string> removed;   // absolute
  std::vector<std::string> restored;  // see below
  std::vector<std::string> in_use;    // a save is writing them
};
// Looks at the directories in `root` itself, and removes those that
// interrupted saves left: temporary names, in any mode; with kMarkerFile also
// directories without the marker that hold files only a checkpoint has. Nothing
// else is ever removed: no file, no link, no directory of any other content. A
// checkpoint that an interrupted overwrite has put aside
// (`<name>.holdfast-replaced`) gets its name back, or is removed when the new
// one is finished.
Result<CleanupResult> CleanupTemporaryPaths(
    const std::string& root, CommitMode mode = CommitMode::kAuto);

}  // namespace holdfast
