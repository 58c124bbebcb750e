#include "tools/copy/copy_times.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "engine/check/digest_index.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "stores/place/place.h"
#include "stores/storage/errno_status.h"

namespace holdfast {

std::vector<std::string> HeldSources(const TreeListing& source) {
  std::vector<std::string> names;
  for (const ListedFile& file : source.files) {
    const std::string directory =
        file.name.substr(0, file.name.rfind('/') + 1);  // npos + 1 is 0
    if (file.name.substr(directory.size()) != kDigestFile) continue;
    const Place at = Place(source.PathOf(file)).parent();
    const auto index = DigestIndex::Read(*at.OpenStore());
    if (!index.ok() || !index->has_value()) continue;
    for (const SourceFile& row : (*index)->sources()) {
      std::string name = directory + row.path;
      if (source.Find(name) != nullptr) names.push_back(std::move(name));
    }
  }
  return names;
}

Status KeepTimes(const TreeListing& source,
                 const std::vector<std::string>& names,
                 const std::string& copy) {
  for (const std::string& name : names) {
    const std::string from = source.PathOf(*source.Find(name));
    struct stat info {};
    if (::stat(from.c_str(), &info) != 0) {
      return ErrnoStatus(errno, "look at", from);
    }
    const std::string to = copy + "/" + name;
    const timespec times[] = {{0, UTIME_OMIT}, info.st_mtim};
    if (::utimensat(AT_FDCWD, to.c_str(), times, 0) != 0) {
      return ErrnoStatus(errno, "set the time of", to);
    }
  }
  return Status();
}

}  // namespace holdfast
