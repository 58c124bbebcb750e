#include "pytree/missing_leaf.h"

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/strings_file.h"
#include "holdfast/orbax/spec.h"
#include "place/open_store.h"
#include "storage/read_if_there.h"

namespace holdfast {
namespace {

std::string_view MetadataName(const ParamInfo& info) {
  return info.use_zarr3 ? "zarr.json" : ".zarray";
}

std::string ReadingText(const std::string& file) {
  return "NOT_FOUND: Error reading local file \"" + file + "\"";
}

Result<std::string> StringOfFile(const std::string& directory,
                                 const ParamInfo& info) {
  const std::string file = directory + "/" + std::string(kStringsFile);
  HF_ASSIGN_OR_RETURN(
      const std::optional<StringsFile> strings,
      ReadIfThere(*StoreAt(directory), kStringsFile, ParseStringsFile));
  if (!strings) return InvalidArgumentError(ReadingText(file));
  const auto found = strings->find(info.name);
  if (found != strings->end()) return found->second;
  return InvalidArgumentError(ReadingText(file) + ": JSON Pointer \"/" +
                              info.name +
                              "\" refers to non-existent object member");
}

}  // namespace

Status MissingArrayError(const ParamInfo& info, const Status& problem) {
  if (!info.is_ocdbt_checkpoint) {
    HF_RETURN_IF_ERROR(AssertParameterFilesExist(
        info.name.empty() ? info.parent_dir : info.path(), std::nullopt,
        info.use_zarr3));
  }
  const bool lacks_database =
      info.is_ocdbt_checkpoint && !IsOcdbtCheckpoint(info.parent_dir);
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
