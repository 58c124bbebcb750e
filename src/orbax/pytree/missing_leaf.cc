#include "orbax/pytree/missing_leaf.h"

#include "engine/format/directory_names.h"
#include "engine/format/strings_file.h"
#include "engine/format/tree_metadata.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/checked_file.h"
#include "holdfast/orbax/spec.h"
#include "stores/place/place.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

std::string ReadingText(const std::string& file) {
  return "NOT_FOUND: Error reading local file \"" + file + "\"";
}

Result<std::string> StringOfFile(const std::string& directory,
                                 const ParamInfo& info) {
  const std::string file = directory + "/" + std::string(kStringsFile);
  HF_ASSIGN_OR_RETURN(
      const std::optional<StringsFile> strings,
      ReadIfThere(*Place(directory).OpenStore(), kStringsFile,
                  ParseStringsFile));
  if (!strings) return InvalidArgumentError(ReadingText(file));
  const auto found = strings->find(info.name);
  if (found != strings->end()) return found->second;
  return InvalidArgumentError(ReadingText(file) + ": JSON Pointer \"/" +
                              info.name +
                              "\" refers to non-existent object member");
}

Result<bool> RecordedUseOcdbt(const std::string& directory) {
  const Result<std::string> text =
      ReadCheckedFile(directory + "/" + std::string(kTreeMetadataFile));
  if (text.status().code() == StatusCode::kDataLoss) return text.status();
  if (text.ok()) {
    const Result<TreeMetadata> metadata = ParseTreeMetadata(*text);
    if (metadata.ok() && metadata->use_ocdbt) return *metadata->use_ocdbt;
  }
  return IsOcdbtCheckpoint(directory);
}

}  // namespace

Status ExplainMissingArray(const ArrayPlace& place, const Status& problem) {
  const std::string& directory = place.directory;
  const std::string prefix = place.name.empty() ? "" : place.name + "/";
  bool use_ocdbt = place.use_ocdbt.value_or(true);
  if (!place.use_ocdbt) {
    HF_ASSIGN_OR_RETURN(use_ocdbt, RecordedUseOcdbt(directory));
  }
  if (!use_ocdbt) {
    HF_RETURN_IF_ERROR(AssertParameterFilesExist(
        place.name.empty() ? directory : directory + "/" + place.name,
        place.metadata_key));
  }
  const bool lacks_database =
      problem.code() == StatusCode::kNotFound && !IsOcdbtCheckpoint(directory);
  if (!problem.ok() && !lacks_database) return Status();
  const bool is_zarr3 = place.metadata_key.ends_with("zarr.json");
  return InvalidArgumentError(
      std::string("NOT_FOUND: Error opening \"") +
      (is_zarr3 ? "zarr3" : "zarr") + "\" driver: Metadata at \"" + prefix +
      place.metadata_key + "\" in OCDBT database at local file \"" + directory +
      "/\" does not exist");
}

Result<std::string> ReadString(const ItemSource* source,
                               const std::string& directory,
                               const ParamInfo& info) {
  const std::optional<size_t> index =
      source == nullptr ? std::nullopt : source->Find(info.name);
  if (index && source->leaf(*index).kind == ValueKind::kString &&
      source->leaf(*index).problem.ok()) {
    return source->checkpoint().ReadText(*index);
  }
  return StringOfFile(directory, info);
}

}  // namespace holdfast
