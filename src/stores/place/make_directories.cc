#include "stores/place/make_directories.h"

#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/path_parts.h"

namespace holdfast {
namespace {

bool IsDirectoryOrLinkToOne(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Status MakeDirectories(const std::string& path, std::optional<uint32_t> mode) {
  if (Place(path).is_remote()) return Status();
  std::vector<std::string> missing;
  std::string next = WithoutTrailingSlashes(path);
  while (!IsDirectoryOrLinkToOne(next) && ParentPath(next) != next) {
    missing.push_back(next);
    next = ParentPath(next);
  }
  for (; !missing.empty(); missing.pop_back()) {
    const std::string& directory = missing.back();
    const Status made = CreateDirectoryNew(Place(directory));
    // Another process may have created it in the meantime.
    const bool is_there = made.code() == StatusCode::kAlreadyExists &&
                          IsDirectoryOrLinkToOne(directory);
    if (is_there) continue;
    HF_RETURN_IF_ERROR(made);
    if (mode && ::chmod(directory.c_str(), *mode) != 0) {
      return ErrnoStatus(errno, "set the mode of", directory);
    }
    HF_RETURN_IF_ERROR(SyncDirectory(Place(ParentPath(directory))));
  }
  return Status();
}

}  // namespace holdfast
