// Operations on directories that checkpoints need, in file systems and in
// object stores: the functions of stores/storage/directory_ops.h for any place.
//
// In an object store a directory is a common prefix of keys: "a/" exists while
// some object has a key below it. Creating a directory therefore only checks
// that the name is free. Nothing needs syncing, and there are no permissions or
// links. An object named "a/" is a marker that other tools leave: it makes "a"
// a directory and does not appear in listings. A web server has only files. The
// place's Look (look.h) knows the contents of a directory there only as far as
// it has found them.
//
// Thread-safety: any thread. Ownership: none. Units: bytes.
// Errors: those of stores/storage/directory_ops.h and of stores/cloud/bucket.h,
// with the path; Unimplemented for operations that a store does not support.
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
// Like LeadsToAnything, but returns false if the answer cannot be determined.
bool IsThere(const Place& place);
Result<std::vector<std::string>> ListDirectory(const Place& place);
Result<DirectoryTree> ListTree(const Place& place);

Status CreateDirectoryNew(const Place& place);
Status SetPermissions(const Place& place, uint32_t mode);
Status SyncDirectory(const Place& place);
Status SyncFile(const Place& place);

// Called before each group of objects is copied or deleted, because the whole
// operation may take long. A failure ends the operation and becomes its result.
// Null means to always continue.
using MayGoOn = std::function<Status()>;

// Moves a directory to its final name. In an object store, the server copies
// the objects, and then the source's objects are deleted. The commit marker
// (commit_success.txt) is copied last and deleted first, so that at every
// moment one of the two names has a complete checkpoint, if the source was one.
//
// `source` and `target` must be in one bucket. A save lease (`_HOLDFAST_SAVE`)
// directly in either directory stays where it is, and does not count as an
// existing file.
Status PublishDirectory(const Place& source, const Place& target,
                        const MayGoOn& may_go_on = nullptr);
// Exchanges the names of two directories. Unimplemented in object stores.
Status ExchangeDirectories(const Place& a, const Place& b);
// Removes the place and everything below it. In an object store, commit markers
// are removed first, so that a half-removed checkpoint no longer counts, and
// save leases last.
Status RemoveTree(const Place& place, const MayGoOn& may_go_on = nullptr);
// Like RemoveTree, but keeps files directly in the place that have one of these
// names. Ok if nothing else exists there. Unimplemented for file-system paths.
Status RemoveAllBut(const Place& place,
                    const std::vector<std::string>& kept_names,
                    const MayGoOn& may_go_on = nullptr);

}  // namespace holdfast
