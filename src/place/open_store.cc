#include "place/open_store.h"

#include "base/status_macros.h"
#include "cloud/bucket_store.h"
#include "place/broken_store.h"
#include "place/look.h"
#include "storage/file_store.h"
#include "storage/url_path.h"

namespace holdfast {

Result<std::shared_ptr<Store>> OpenStore(const std::string& directory) {
  if (!IsUrl(directory)) {
    return std::shared_ptr<Store>(std::make_shared<FileStore>(directory));
  }
  HF_ASSIGN_OR_RETURN(BucketPlace place,
                      BucketRegistry::Default().Find(AbsolutePath(directory)));
  if (std::shared_ptr<Look> look = CurrentLook(place)) {
    return MakeLookStore(std::move(look), place.key);
  }
  return std::shared_ptr<Store>(
      std::make_shared<BucketStore>(place.bucket, place.key));
}

std::shared_ptr<Store> StoreAt(const std::string& directory) {
  Result<std::shared_ptr<Store>> store = OpenStore(directory);
  if (store.ok()) return std::move(store).value();
  return std::make_shared<BrokenStore>(directory, store.status());
}

}  // namespace holdfast
