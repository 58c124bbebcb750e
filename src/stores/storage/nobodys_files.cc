#include "stores/storage/nobodys_files.h"

#include <algorithm>

namespace holdfast {
namespace {

constexpr std::string_view kFiles[] = {
    ".DS_Store", ".apdisk",     ".directory",  ".localized",
    "Thumbs.db", "ehthumbs.db", "desktop.ini", "Desktop.ini"};
// macOS keeps the second half of a file under "._". The other prefixes are of
// files that were removed while open, on NFS, FUSE and SMB.
constexpr std::string_view kFilePrefixes[] = {"._", ".nfs", ".fuse_hidden",
                                              ".smbdelete"};
constexpr std::string_view kDirectories[] = {
    ".AppleDouble", ".Spotlight-V100", ".TemporaryItems",
    ".Trashes",     ".fseventsd",      ".ipynb_checkpoints",
    "@eaDir",       "__MACOSX",        "lost+found"};

}  // namespace

bool IsNobodysFile(std::string_view name) {
  return std::find(std::begin(kFiles), std::end(kFiles), name) !=
             std::end(kFiles) ||
         std::any_of(std::begin(kFilePrefixes), std::end(kFilePrefixes),
                     [&](std::string_view prefix) {
                       return name.size() > prefix.size() &&
                              name.starts_with(prefix);
                     });
}

bool IsNobodysDirectory(std::string_view name) {
  return std::find(std::begin(kDirectories), std::end(kDirectories), name) !=
         std::end(kDirectories);
}

bool IsNobodysPath(std::string_view path) {
  for (;;) {
    const size_t slash = path.find('/');
    if (slash == path.npos) return IsNobodysFile(path);
    if (IsNobodysDirectory(path.substr(0, slash))) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace holdfast
