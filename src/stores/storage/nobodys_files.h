// Files that systems leave in any directory and that no user made on purpose:
// notes of a desktop, a file server or a notebook about the files next to them.
// No listing of a directory shows them, so they neither turn a directory into a
// checkpoint nor keep it from being replaced; they are removed with it, and are
// not copied.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace holdfast {

// ".DS_Store", "._name", ".nfs0123", "Thumbs.db".
bool IsNobodysFile(std::string_view name);
// ".ipynb_checkpoints", "@eaDir", "lost+found".
bool IsNobodysDirectory(std::string_view name);
// True if the path's name, or any directory it is in, is such a file or
// directory.
bool IsNobodysPath(std::string_view path);

}  // namespace holdfast
