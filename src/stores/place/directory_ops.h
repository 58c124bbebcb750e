// Operations on directories that checkpoints need, in file systems and in
// object stores: the functions of stores/storage/directory_ops.h for any place.
//
// In an object store a directory is a common prefix of keys: "a/" exists while
// some object has a key below it. Making a directory therefore only checks that
// the name is free, and there is nothing to sync, no permissions and no links.
// An object named "a/" (a marker that other tools leave) makes a directory and
// is in no listing. A web server has only files; the contents of a directory
// there are known only as far as the Look (look.h) of the place has found them.
//
// Thread-safety: any thread. Ownership: none. Units: bytes.
// Errors: those of stores/storage/directory_ops.h and of stores/cloud/bucket.h,
// with the path; Unimplemented for operations that a store cannot do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/status.h"
#include "stores/place/place.h"
#include "stores/storage/directory_ops.h"

namespace holdfast {

using local::DirectoryTree;
using local::PathKind;

Result<PathKind> GetPathKind(const Place& place);
Result<bool> LeadsToDirectory(const Place& place);
Result<bool> LeadsToAnything(const Place& place);
// LeadsToAnything, but false if the answer cannot be determined.
bool IsThere(const Place& place);
Result<std::vector<std::string>> ListDirectory(const Place& place);
Result<DirectoryTree> ListTree(const Place& place);

Status CreateDirectoryNew(const Place& place);
Status SetPermissions(const Place& place, uint32_t mode);
Status SyncDirectory(const Place& place);
Status SyncFile(const Place& place);

// Called before each group of objects is copied or deleted, which may take
// long: a failure ends the operation and becomes its result. Null means to
// continue.
using MayGoOn = std::function<Status()>;

// In an object store the server copies the objects, which are then deleted. The
// commit marker (commit_success.txt) is copied last and deleted first: at every
// moment one of the two names has a complete checkpoint, if the source was one.
// `source` and `target` must be in one bucket. A save's lease
// (`_HOLDFAST_SAVE`) directly in either directory stays where it is and is not
// in the way.
Status PublishDirectory(const Place& source, const Place& target,
                        const MayGoOn& may_go_on = nullptr);
// Unimplemented in object stores.
Status ExchangeDirectories(const Place& a, const Place& b);
// In an object store the commit markers below the place are removed first, so
// that a half-removed checkpoint no longer counts, and the leases last.
Status RemoveTree(const Place& place, const MayGoOn& may_go_on = nullptr);
// Like RemoveTree, but keeps files of these names directly in the place; ok if
// nothing else exists there. Unimplemented for paths of a file system.
Status RemoveAllBut(const Place& place,
                    const std::vector<std::string>& kept_names,
                    const MayGoOn& may_go_on = nullptr);

}  // namespace holdfast
