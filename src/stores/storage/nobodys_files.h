// Files that systems leave in any directory and that no user made on purpose:
// what a desktop, a file server or a notebook records about the files next to
// them. No directory listing shows them. They neither make a directory a
// checkpoint nor keep the directory from being replaced. They are removed with
// the directory, and are not copied.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace holdfast {

// True for names like ".DS_Store", "._name", ".nfs0123" and "Thumbs.db".
bool IsNobodysFile(std::string_view name);
// True for names like ".ipynb_checkpoints", "@eaDir" and "lost+found".
bool IsNobodysDirectory(std::string_view name);
// Returns true if the path's last part is such a file or directory, or if it is
// in such a directory.
bool IsNobodysPath(std::string_view path);

}  // namespace holdfast
