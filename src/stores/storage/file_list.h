// ListFiles: the objects below a directory, in byte order of their keys.
//
// A directory "a" sorts as "a/", because its keys do: after "a.b", before "a0".
// Left out are hidden names (new_file.h), everything that is not a regular
// file, and directories reached through a symbolic link; a link to a regular
// file beneath the root counts as that file.
// Thread-safety: any thread; files that are created or removed meanwhile may be
// missed. Ownership: borrows all arguments. Units: bytes.
// Errors: those of opening and reading a directory, and those of `fn`.
#pragma once

#include <functional>
#include <string_view>

#include "holdfast/status.h"
#include "stores/storage/file_calls.h"
#include "stores/storage/store.h"

namespace holdfast {

using ListFunction =
    std::function<Status(std::string_view key, const ObjectInfo& info)>;

// See Store::List. `root_path` is for messages.
Status ListFiles(const FileCalls& calls, int root, std::string_view root_path,
                 std::string_view prefix, const ListFunction& fn);

}  // namespace holdfast
