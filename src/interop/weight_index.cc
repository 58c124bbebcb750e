#include "interop/weight_index.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "interop/json_members.h"
#include "place/file_set.h"

namespace holdfast {
namespace {

// More than any list of names needs; it bounds a file that is read before it is
// understood.
constexpr uint64_t kIndexBytesMax = uint64_t{256} << 20;

Result<WeightIndex> ParseWeightIndex(std::string_view text) {
  HF_ASSIGN_OR_RETURN(const nlohmann::json document, ParseUniqueJson(text));
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object()) {
    return DataLossError("it has no weight_map");
  }
  WeightIndex index;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) {
      return DataLossError("weight_map: the file of \"" + name +
                           "\" is no text");
    }
    const std::string& text = file.get_ref<const std::string&>();
    if (text.empty() || text == "." || text == ".." ||
        text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos) {
      return DataLossError("weight_map: tensor \"" + name + "\" is in \"" +
                           text + "\", which is no name of a file beside it");
    }
    index.file_of[name] = text;
  }
  const auto metadata = document.find("metadata");
  if (metadata == document.end() || !metadata->is_object()) return index;
  for (const auto& [name, value] : metadata->items()) {
    if (value.is_string()) index.metadata[name] = value.get<std::string>();
  }
  return index;
}

}  // namespace

std::set<std::string> WeightIndex::Files() const {
  std::set<std::string> files;
  for (const auto& [tensor, file] : file_of) files.insert(file);
  return files;
}

std::map<std::string, Place> FilesOf(const WeightIndex& index,
                                     const Place& directory) {
  std::map<std::string, Place> places;
  for (const auto& [tensor, file] : index.file_of) {
    places.emplace(file, directory / file);
  }
  return places;
}

Result<WeightIndex> ReadWeightIndex(const Place& file) {
  const std::string name = file.name();
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store,
                      MakeFileSet({{name, file}}));
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(name));
  if (info.byte_count > kIndexBytesMax) {
    return DataLossError(file.path() + ": an index of " +
                         std::to_string(info.byte_count) + " bytes");
  }
  HF_ASSIGN_OR_RETURN(const Bytes text, store->Read(name));
  Result<WeightIndex> index = ParseWeightIndex(text.view());
  if (!index.ok()) return index.status().WithContext(file.path());
  return index;
}

Result<std::string> ChooseIndex(const Place& directory,
                                const std::vector<std::string>& names,
                                std::string_view suffix,
                                std::string_view usual) {
  std::vector<std::string> indexes;
  for (const std::string& name : names) {
    if (name == usual) return name;
    if (name.ends_with(suffix)) indexes.push_back(name);
  }
  if (indexes.empty()) return std::string();
  if (indexes.size() == 1) return indexes.front();
  return FailedPreconditionError(
      directory.path() + ": there are several indexes, " + indexes[0] +
      " and " + indexes[1] + "; give the path of one of them");
}

Status FoundWeights::Add(const std::string& name, const std::string& file,
                         const WeightIndex* index) {
  const auto [other, is_new] = file_of_.emplace(name, file);
  if (!is_new) {
    return DataLossError("tensor \"" + name + "\" is also in " + other->second);
  }
  if (index == nullptr) return Status();
  const auto listed = index->file_of.find(name);
  if (listed != index->file_of.end() && listed->second == file) {
    return Status();
  }
  return DataLossError(
      "tensor \"" + name + "\" is in it, but the index has it " +
      (listed == index->file_of.end() ? "nowhere" : "in " + listed->second));
}

Status FoundWeights::CheckAll(const WeightIndex& index) const {
  for (const auto& [name, file] : index.file_of) {
    if (file_of_.contains(name)) continue;
    return DataLossError("tensor \"" + name + "\" is not in " + file);
  }
  return Status();
}

}  // namespace holdfast
