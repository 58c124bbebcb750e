// ListFiles lists the objects below a directory, in byte order of their keys.
//
// A directory "a" is sorted as "a/", as its keys are: after "a.b" and before
// "a0". Hidden names (new_file.h), everything that is not a regular file, and
// directories reached through a symbolic link are left out. A link to a regular
// file beneath the root counts as that file.
// Thread-safety: any thread; files that are created or removed during the
// listing may be missed. Ownership: borrows all arguments. Units: bytes.
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

// Calls `fn` as Store::List does. `root_path` is for messages.
Status ListFiles(const FileCalls& calls, int root, std::string_view root_path,
                 std::string_view prefix, const ListFunction& fn);

}  // namespace holdfast
