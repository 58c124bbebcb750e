// Implements the directory operations of stores/place/directory_ops.h for a
// bucket; that header has the contracts.
//
// Thread-safety: any thread. Ownership: none. Units: bytes.
// Errors: those of the bucket; the codes named in directory_ops.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stores/place/bucket_registry.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/file_walk.h"

namespace holdfast {

Result<local::PathKind> KindInBucket(const BucketPlace& place);
Result<std::vector<std::string>> NamesInBucket(const BucketPlace& place);
Result<local::DirectoryTree> TreeInBucket(const BucketPlace& place);
Status WalkBucket(const BucketPlace& place,
                  const std::function<void(const local::WalkedFile&)>& fn);

Status CheckFreeInBucket(const BucketPlace& place);
Status PublishInBucket(const BucketPlace& source, const BucketPlace& target,
                       const std::function<Status()>& may_go_on);
// Removes everything below the place, except files directly below it that have
// one of these names.
Status RemoveFromBucket(const BucketPlace& place,
                        const std::vector<std::string>& kept_names,
                        const std::function<Status()>& may_go_on);

// Returns the directory tree of files with these paths, which are sorted and
// relative to one directory.
local::DirectoryTree TreeOfPaths(std::vector<std::string> paths);

}  // namespace holdfast
