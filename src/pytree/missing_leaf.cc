#include "pytree/missing_leaf.h"

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/strings_file.h"
#include "place/directory_ops.h"
#include "place/open_store.h"

namespace holdfast {
namespace {

bool IsThere(const std::string& path) {
  const Result<PathKind> kind = GetPathKind(path);
  return kind.ok() && *kind != PathKind::kMissing;
}

std::string ArrayDirectory(const ParamInfo& info) {
  return info.name.empty() ? info.parent_dir : info.path();
}

std::string_view MetadataName(const ParamInfo& info) {
  return info.use_zarr3 ? "zarr.json" : ".zarray";
}

Status CheckArrayFiles(const ParamInfo& info) {
  const std::string directory = ArrayDirectory(info);
  if (!IsThere(directory)) {
    return NotFoundError(
        "Individual parameter subdirectory not found at path: " + directory +
        ".");
  }
  const std::string file = directory + "/" + std::string(MetadataName(info));
  if (IsThere(file)) return Status();
  return NotFoundError("File not found: " + file +
                       ". In many cases, this results from copying a "
                       "checkpoint without using the `-a` flag.");
}

std::string ReadingText(const std::string& file) {
  return "NOT_FOUND: Error reading local file \"" + file + "\"";
}

Result<std::string> StringOfFile(const std::string& directory,
                                 const ParamInfo& info) {
  const std::string file = directory + "/" + std::string(kStringsFile);
  if (!IsThere(file)) return InvalidArgumentError(ReadingText(file));
  const std::shared_ptr<Store> files = StoreAt(directory);
  HF_ASSIGN_OR_RETURN(const Bytes text, files->Read(kStringsFile));
  const Result<StringsFile> strings = ParseStringsFile(text.view());
  if (!strings.ok()) return strings.status().WithContext(file);
  const auto found = strings->find(info.name);
  if (found != strings->end()) return found->second;
  return InvalidArgumentError(ReadingText(file) + ": JSON Pointer \"/" +
                              info.name +
                              "\" refers to non-existent object member");
}

}  // namespace

Status MissingArrayError(const ParamInfo& info, const Status& problem) {
  if (!info.is_ocdbt_checkpoint) HF_RETURN_IF_ERROR(CheckArrayFiles(info));
  const bool lacks_database =
      info.is_ocdbt_checkpoint &&
      !IsThere(info.parent_dir + "/" + std::string(kManifestFile));
  if (!problem.ok() && !lacks_database) return problem;
  std::string key = info.name.empty() ? "" : info.name + "/";
  key += MetadataName(info);
  return InvalidArgumentError(std::string("NOT_FOUND: Error opening \"") +
                              (info.use_zarr3 ? "zarr3" : "zarr") +
                              "\" driver: Metadata at \"" + key +
                              "\" in OCDBT database at local file \"" +
                              info.parent_dir + "/\" does not exist");
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
