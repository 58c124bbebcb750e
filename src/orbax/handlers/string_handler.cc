#include <utility>

#include "engine/commit/layout.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/type_handlers.h"
#include "orbax/handlers/done_future.h"
#include "orbax/handlers/small_files.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

Status CheckParentDir(const ParamInfo& info) {
  if (!info.parent_dir.empty()) return Status();
  return InvalidArgumentError("Must provide info.parent_dir.");
}

// Returns TensorStore's message.
std::string ReadingText(const std::string& directory,
                        const std::string& filename) {
  return "Error reading local file \"" +
         Place(directory).OpenStore()->Describe(filename) + "\"";
}

Result<StringsFile> StringsOf(const std::string& directory,
                              const std::string& filename) {
  HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                      CheckedFiles::OfItem(Place(directory)));
  Result<StringsFile> strings = ReadStrings(files, filename);
  if (strings.status().code() == StatusCode::kNotFound) {
    return NotFoundError(ReadingText(directory, filename));
  }
  return strings;
}

}  // namespace

Result<std::vector<ValueMetadata>> StringHandler::Metadata(
    std::span<const ParamInfo> infos) {
  std::vector<ValueMetadata> metadatas;
  for (const ParamInfo& info : infos) {
    metadatas.push_back(StringMetadata{info.name, info.parent_dir});
  }
  return metadatas;
}

Result<std::vector<CommitFuture>> StringHandler::Serialize(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> /*args*/) {
  HF_RETURN_IF_ERROR(CheckInputArguments({values.size(), infos.size()}));
  std::map<std::string, StringsFile> by_directory;
  for (size_t i = 0; i < values.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckParentDir(infos[i]));
    if (!values[i]->is_leaf() || values[i]->leaf_kind() != LeafKind::kString) {
      return InvalidArgumentError(
          "param " + infos[i].name + ": a leaf of type \"" +
          LeafType::OfLeaf(*values[i]).name + "\" is not a string");
    }
    by_directory[infos[i].parent_dir][infos[i].name] = values[i]->text();
  }
  return CatchBadAlloc([&]() -> Result<std::vector<CommitFuture>> {
    for (const auto& [directory, strings] : by_directory) {
      const std::shared_ptr<Store> store =
          Place(directory).Absolute().OpenStore();
      HF_RETURN_IF_ERROR(AddStrings(*store, filename_, strings));
    }
    return std::vector<CommitFuture>{DoneFuture()};
  });
}

Result<std::vector<Tree>> StringHandler::Deserialize(
    std::span<const ParamInfo> infos,
    std::span<const AnyRestoreArgs> /*args*/) {
  return CatchBadAlloc([&]() -> Result<std::vector<Tree>> {
    std::map<std::string, StringsFile> by_directory;
    std::vector<Tree> values;
    for (const ParamInfo& info : infos) {
      HF_RETURN_IF_ERROR(CheckParentDir(info));
      const std::string directory = AbsolutePath(info.parent_dir);
      auto [file, is_new] = by_directory.try_emplace(info.parent_dir);
      if (is_new) {
        HF_ASSIGN_OR_RETURN(file->second, StringsOf(directory, filename_));
      }
      const auto found = file->second.find(info.name);
      if (found == file->second.end()) {
        return NotFoundError(ReadingText(directory, filename_) +
                             ": JSON Pointer \"/" + info.name +
                             "\" refers to non-existent object member");
      }
      values.emplace_back(found->second);
    }
    return values;
  });
}

}  // namespace holdfast
