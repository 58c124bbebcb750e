#include "checkpoint/save/earlier_item.h"

#include <vector>

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"

namespace holdfast {
namespace {

Status DeleteAll(const std::vector<std::string>& names, Store& store) {
  for (const std::string& name : names) {
    HF_RETURN_IF_ERROR(store.Delete(name));
  }
  return Status();
}

}  // namespace

Status RemoveEarlierItem(bool adopt_existing, Store& store) {
  std::vector<std::string> names = {std::string(kTreeMetadataFile),
                                    std::string(kDigestFile),
                                    std::string(kManifestFile)};
  if (!adopt_existing) {
    names.insert(names.end(),
                 {std::string(kShardingFile), std::string(kStringsFile)});
  }
  return DeleteAll(names, store);
}

Status RemoveEarlierPart(const std::string& process_directory, int64_t rank,
                         Store& store) {
  return DeleteAll({std::string(kArrayMetadatasDirectory) + "/" +
                        ArrayMetadatasFileName(rank),
                    process_directory + "/" + std::string(kManifestFile)},
                   store);
}

}  // namespace holdfast
