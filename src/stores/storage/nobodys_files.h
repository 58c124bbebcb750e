// Files that systems leave in any directory and that nobody made on purpose:
// what a desktop, a file server or a notebook notes about the files beside
// them. No listing of a directory shows them, so that they neither make a
// checkpoint of a directory nor keep one from being replaced; they go with it,
// and are not copied.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace holdfast {

// ".DS_Store", "._name", ".nfs0123", "Thumbs.db".
bool IsNobodysFile(std::string_view name);
// ".ipynb_checkpoints", "@eaDir", "lost+found".
bool IsNobodysDirectory(std::string_view name);
// The same of a file's path: by its name, or by a directory that it is in.
bool IsNobodysPath(std::string_view path);

}  // namespace holdfast
