// DirectoryStream: a DIR that closes itself.
//
// Thread-safety: one owner. Errors: those of closedir() are ignored.
#pragma once

#include <dirent.h>

#include <memory>

namespace holdfast {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using DirectoryStream = std::unique_ptr<DIR, CloseDirectory>;

}  // namespace holdfast
