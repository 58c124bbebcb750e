#include "place/file_walk.h"

#include "storage/url_path.h"

namespace holdfast {

Status WalkFiles(const std::string& directory,
                 const std::function<void(const WalkedFile&)>& fn) {
  if (!IsUrl(directory)) return local::WalkFiles(directory, fn);
  return UnimplementedError("directory " + directory + ": no store for it");
}

}  // namespace holdfast
