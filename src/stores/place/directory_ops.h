// Operations on directories that checkpoints need, whether they are of a file
// system or of an object store: the functions of stores/storage/directory_ops.h
// for any place.
//
// In an object store a directory is what keys have in common: "a/" exists while
// an object has a key below it. So making one only asks whether the name is
// free, and there is nothing to sync, no permissions and no links. An object
// named "a/" (a marker that other tools leave) makes a directory and is in no
// listing. A web server has files only; what a directory there holds is known
// where the Look (look.h) of the place found out.
//
// Thread-safety: any thread. Ownership: none. Units: bytes.
// Errors: of stores/storage/directory_ops.h and of stores/cloud/bucket.h, with
// the path; Unimplemented where a store cannot do what is asked.
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
// LeadsToAnything, and false where that cannot be found out.
bool IsThere(const Place& place);
Result<std::vector<std::string>> ListDirectory(const Place& place);
Result<DirectoryTree> ListTree(const Place& place);

Status CreateDirectoryNew(const Place& place);
Status SetPermissions(const Place& place, uint32_t mode);
Status SyncDirectory(const Place& place);
Status SyncFile(const Place& place);

// Asked before each group of objects that is copied or deleted, which may take
// long: a failure ends the operation there, and is its own. Null: go on.
using MayGoOn = std::function<Status()>;

// In an object store objects are copied by the server and then deleted, the
// commit marker (commit_success.txt) last of the copies and first of what is
// deleted: at every moment one of the two names has a whole checkpoint, if the
// source was one. `source` and `target` must be in one bucket. The lease of a
// save (`_HOLDFAST_SAVE`) directly in either stays where it is and is not in
// the way.
Status PublishDirectory(const Place& source, const Place& target,
                        const MayGoOn& may_go_on = nullptr);
// Unimplemented in object stores.
Status ExchangeDirectories(const Place& a, const Place& b);
// In an object store the commit markers below `path` go first, so that a
// half-removed checkpoint no longer counts, and the leases go last.
Status RemoveTree(const Place& place, const MayGoOn& may_go_on = nullptr);
// The same, leaving files of these names directly in `path`; nothing else there
// is then ok. Unimplemented for paths of a file system.
Status RemoveAllBut(const Place& place,
                    const std::vector<std::string>& kept_names,
                    const MayGoOn& may_go_on = nullptr);

}  // namespace holdfast
