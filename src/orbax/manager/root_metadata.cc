#include "orbax/manager/root_metadata.h"

#include <array>

#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

constexpr std::string_view kLegacyRootMetadataFile = "metadata";

std::string RootMetadataKey(std::string_view file) {
  return std::string(kRootMetadataDirectory) + "/" + std::string(file);
}

}  // namespace

Status WriteRootMetadata(const std::string& root,
                         const std::string& custom_metadata_json) {
  const auto parsed = ParseJsonText(custom_metadata_json);
  if (!parsed.ok() || !parsed->is_object()) {
    return InvalidArgumentError("metadata of " + root +
                                ": want a JSON object, got " +
                                custom_metadata_json);
  }
  RootMetadata metadata;
  metadata.custom_metadata = *parsed;
  const std::shared_ptr<Store> store = Place(root).OpenStore();
  WriteOptions options;
  options.must_create = true;
  const Status written = store->Write(RootMetadataKey(kRootMetadataFile),
                                      SerializeRootMetadata(metadata), options);
  return written.code() == StatusCode::kAlreadyExists ? Status() : written;
}

Result<std::optional<std::string>> ReadRootMetadata(const std::string& root) {
  const std::string directory =
      root + "/" + std::string(kRootMetadataDirectory);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(directory)));
  if (kind == PathKind::kMissing) return std::optional<std::string>();
  const std::shared_ptr<Store> store = Place(root).OpenStore();
  for (const std::string_view file :
       {kRootMetadataFile, kLegacyRootMetadataFile}) {
    const auto text = store->Read(RootMetadataKey(file));
    if (!text.ok() && text.status().code() == StatusCode::kNotFound) continue;
    if (!text.ok()) return text.status();
    HF_ASSIGN_OR_RETURN(const RootMetadata metadata,
                        ParseRootMetadata(text->view()));
    return std::optional<std::string>(PythonJsonText(metadata.custom_metadata));
  }
  return NotFoundError("Failed to read metadata from " + directory + "/" +
                       std::string(kLegacyRootMetadataFile));
}

}  // namespace holdfast
