// A checkpoint that gets another name on a file system that renames no
// directories: its files do, one by one, and the marker comes last.
//
// Until all of it is there the new directory says of itself that it was begun
// and not committed (IsBegunOnly), where there is `_CHECKPOINT_METADATA` to say
// so. The first time a process does this it says so on stderr.
// Thread-safety: any thread; the caller has the locks of what it names.
// Errors: AlreadyExists (something is at the target), those of the file system.
// After one there is nothing at the target.
#pragma once

#include "holdfast/status.h"
#include "stores/place/place.h"
#include "stores/storage/directory_lock.h"

namespace holdfast {

// The target has the files by hard links, or copies where there are no links:
// the source stays as it is. The lock is the target's.
Result<DirectoryLock> CopyByFiles(const Place& source, const Place& target);
// The target has the files themselves; what is left of the source is not
// removed.
Result<DirectoryLock> MoveByFiles(const Place& source, const Place& target);

// PublishDirectory, or where directories are not renamed a copy by files and
// the removal of `source`. Both checkpoints' names are the caller's.
Status GiveName(const Place& source, const Place& target);

// From now on no reader takes the directory for a checkpoint.
Status MarkBegunOnly(const Place& directory);
// Removes what is in such a directory but the file that says so, durably: after
// a loss of power, too, what is left of it is known for a leftover.
Status EmptyBegunOnly(const Place& directory);

}  // namespace holdfast
