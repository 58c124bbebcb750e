#include "place/file_walk.h"

#include "base/status_macros.h"
#include "place/bucket_tree.h"
#include "storage/url_path.h"

namespace holdfast {

Status WalkFiles(const std::string& directory,
                 const std::function<void(const WalkedFile&)>& fn) {
  if (!IsUrl(directory)) return local::WalkFiles(directory, fn);
  HF_ASSIGN_OR_RETURN(const BucketPlace place,
                      BucketRegistry::Default().Find(directory));
  return WalkBucket(place, fn);
}

}  // namespace holdfast
