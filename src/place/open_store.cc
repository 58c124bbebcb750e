#include "place/open_store.h"

#include "place/broken_store.h"
#include "storage/file_store.h"
#include "storage/url_path.h"

namespace holdfast {

Result<std::shared_ptr<Store>> OpenStore(const std::string& directory) {
  if (!IsUrl(directory)) {
    return std::shared_ptr<Store>(std::make_shared<FileStore>(directory));
  }
  return UnimplementedError("open " + directory + ": no store for this scheme");
}

std::shared_ptr<Store> StoreAt(const std::string& directory) {
  Result<std::shared_ptr<Store>> store = OpenStore(directory);
  if (store.ok()) return std::move(store).value();
  return std::make_shared<BrokenStore>(directory, store.status());
}

}  // namespace holdfast
