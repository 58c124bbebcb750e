// Gives a checkpoint another name on a file system that cannot rename
// directories: its files are linked or moved one by one, the marker last.
//
// Until every file has arrived, the new directory is marked as begun and not
// committed (IsBegunOnly), provided that the source has `_CHECKPOINT_METADATA`.
// When a process does this for the first time, it prints a note to stderr.
// Thread-safety: any thread; the caller holds the locks of both directories.
// Errors: AlreadyExists (the target exists), those of the file system. After an
// error nothing is left at the target.
#pragma once

#include "holdfast/status.h"
#include "stores/place/place.h"
#include "stores/storage/directory_lock.h"

namespace holdfast {

// Fills the target with hard links, or with copies where links are not
// supported; the source stays as it is. Returns the lock of the target.
Result<DirectoryLock> CopyByFiles(const Place& source, const Place& target);
// Moves the files themselves to the target; does not remove what is left of the
// source.
Result<DirectoryLock> MoveByFiles(const Place& source, const Place& target);

// Calls PublishDirectory. If directories cannot be renamed there, copies by
// files instead and removes `source`. The caller must own both names.
Status GiveName(const Place& source, const Place& target);

// Makes readers stop treating the directory as a checkpoint.
Status MarkBegunOnly(const Place& directory);
// Durably removes everything in a directory that is marked as begun, except the
// file that marks it. After a power loss in between, the rest is still
// recognized as a leftover.
Status EmptyBegunOnly(const Place& directory);

}  // namespace holdfast
