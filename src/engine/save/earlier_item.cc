#include "engine/save/earlier_item.h"

#include <string>
#include <vector>

#include "engine/format/directory_names.h"
#include "engine/save/item_writer.h"
#include "ground/base/status_macros.h"

namespace holdfast {

Status RemoveEarlierItem(const ProcessPart& part, bool adopt_existing,
                         Store& store) {
  std::vector<std::string> names;
  // Fingerprints may stay, because the new list will not name them.
  if (part.is_primary) {
    names.insert(names.end(),
                 {std::string(kTreeMetadataFile), std::string(kDigestFile),
                  std::string(kManifestFile)});
  }
  if (part.is_primary && !adopt_existing) {
    names.insert(names.end(),
                 {std::string(kShardingFile), std::string(kStringsFile)});
  }
  if (!adopt_existing) {
    names.insert(names.end(),
                 {ArrayMetadatasPath(part.rank),
                  ProcessDirectoryOf(part) + "/" + std::string(kManifestFile)});
  }
  for (const std::string& name : names) {
    HF_RETURN_IF_ERROR(store.Delete(name));
  }
  return Status();
}

}  // namespace holdfast
