#include "stores/place/file_walk.h"

#include "ground/base/status_macros.h"
#include "stores/place/bucket_tree.h"

namespace holdfast {

Status WalkFiles(const Place& directory,
                 const std::function<void(const WalkedFile&)>& fn,
                 const std::function<void(const std::string&)>& on_link) {
  if (!directory.is_remote()) {
    return local::WalkFiles(directory.path(), fn, on_link);
  }
  HF_ASSIGN_OR_RETURN(const BucketPlace at, directory.InBucket());
  return WalkBucket(at, fn);
}

}  // namespace holdfast
