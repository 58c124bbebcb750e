#include "engine/references/content_hash.h"

#include <memory>
#include <string_view>

#include "engine/format/directory_names.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/nobodys_files.h"

namespace holdfast {
namespace {

void HashFile(std::string_view name, uint64_t byte_count, Sha256& hash) {
  std::string line(name);
  line += '\0';
  line += std::to_string(byte_count);
  line += '\0';
  hash.Update(line);
}

}  // namespace

Result<std::string> ContentHash(const Place& place) {
  Sha256 hash;
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  if (kind == PathKind::kFile) {
    HF_ASSIGN_OR_RETURN(const ObjectInfo info,
                        place.parent().OpenStore()->Stat(place.name()));
    HashFile("", info.byte_count, hash);
    return hash.HexDigest();
  }
  const std::shared_ptr<Store> store = place.OpenStore();
  const Result<Bytes> list = store->Read(kDigestFile);
  if (list.ok()) {
    hash.Update(list->view());
    return hash.HexDigest();
  }
  if (list.status().code() != StatusCode::kNotFound) return list.status();
  HF_RETURN_IF_ERROR(store->List(
      "", [&](std::string_view key, const ObjectInfo& info) -> Status {
        // Files that operating systems leave there do not count as content.
        if (!IsNobodysPath(key)) HashFile(key, info.byte_count, hash);
        return Status();
      }));
  return hash.HexDigest();
}

}  // namespace holdfast
