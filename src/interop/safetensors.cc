#include "interop/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/restore/leaf_request.h"
#include "interop/extent_checkpoint.h"
#include "interop/file_set.h"
#include "interop/json_members.h"
#include "interop/packed_reader.h"
#include "interop/safetensors_header.h"
#include "interop/tree_sidecar.h"
#include "place/directory_ops.h"

namespace holdfast {
namespace {

// More than any list of names needs; it bounds a file that is read before it is
// understood.
constexpr uint64_t kIndexBytesMax = uint64_t{256} << 20;

using Metadata = std::map<std::string, std::string>;

Result<SafetensorsHeader> ReadHeader(Store& store, const std::string& file,
                                     uint64_t& data_offset) {
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(file));
  HF_ASSIGN_OR_RETURN(const Bytes start,
                      store.Read(file, {0, std::min(info.byte_count,
                                                    kSafetensorsLengthBytes)}));
  HF_ASSIGN_OR_RETURN(const uint64_t length,
                      SafetensorsHeaderLength(start.view(), info.byte_count));
  HF_ASSIGN_OR_RETURN(const Bytes json,
                      store.Read(file, {kSafetensorsLengthBytes, length}));
  data_offset = kSafetensorsLengthBytes + length;
  return ParseSafetensorsHeader(json.view(), info.byte_count - data_offset);
}

// The file of each tensor, and everything else in the index.
struct SafetensorsIndex {
  std::map<std::string, std::string> file_of;
  Metadata metadata;
};

Result<SafetensorsIndex> ParseIndex(std::string_view text) {
  HF_ASSIGN_OR_RETURN(const nlohmann::json document, ParseUniqueJson(text));
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object()) {
    return DataLossError("it has no weight_map");
  }
  SafetensorsIndex index;
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

class SafetensorsOpener {
 public:
  SafetensorsOpener(const Place& place, bool use_sidecar)
      : place_(place), use_sidecar_(use_sidecar) {}

  Result<std::unique_ptr<Checkpoint>> OpenFile() {
    HF_RETURN_IF_ERROR(AddFiles(place_.parent(), {place_.name()}, nullptr));
    return Finish();
  }

  Result<std::unique_ptr<Checkpoint>> OpenDirectory(
      const std::string& index_name) {
    if (!index_name.empty()) return OpenIndex(index_name);
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(place_));
    std::vector<std::string> indexes;
    std::set<std::string> files;
    for (const std::string& name : names) {
      if (name.ends_with(kSafetensorsIndexSuffix)) indexes.push_back(name);
      if (name.ends_with(kSafetensorsSuffix)) files.insert(name);
    }
    const bool has_usual = std::find(indexes.begin(), indexes.end(),
                                     kSafetensorsIndexFile) != indexes.end();
    if (has_usual) return OpenIndex(std::string(kSafetensorsIndexFile));
    if (indexes.size() == 1) return OpenIndex(indexes.front());
    if (indexes.size() > 1) {
      return FailedPreconditionError(
          place_.path() + ": there are several indexes, " + indexes[0] +
          " and " + indexes[1] + "; give the path of one of them");
    }
    HF_RETURN_IF_ERROR(AddFiles(place_, files, nullptr));
    return Finish();
  }

 private:
  Result<std::unique_ptr<Checkpoint>> OpenIndex(const std::string& name) {
    const Place file = place_ / name;
    HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store,
                        MakeFileSet({{name, file}}));
    HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(name));
    if (info.byte_count > kIndexBytesMax) {
      return DataLossError(file.path() + ": an index of " +
                           std::to_string(info.byte_count) + " bytes");
    }
    HF_ASSIGN_OR_RETURN(const Bytes text, store->Read(name));
    Result<SafetensorsIndex> index = ParseIndex(text.view());
    if (!index.ok()) return index.status().WithContext(file.path());
    std::set<std::string> files;
    for (const auto& [tensor, in_file] : index->file_of) files.insert(in_file);
    const Status added = AddFiles(place_, files, &*index);
    if (!added.ok()) return added.WithContext(file.path());
    metadata_ = std::move(index->metadata);
    return Finish();
  }

  Status AddFiles(const Place& directory, const std::set<std::string>& files,
                  const SafetensorsIndex* index) {
    std::map<std::string, Place> places;
    for (const std::string& file : files) places[file] = directory / file;
    HF_ASSIGN_OR_RETURN(store_, MakeFileSet(places));
    for (const std::string& file : files) {
      const Status added = AddFile(file, index);
      if (!added.ok()) return added.WithContext((directory / file).path());
    }
    if (index == nullptr) return Status();
    for (const auto& [name, file] : index->file_of) {
      if (file_of_.contains(name)) continue;
      return DataLossError("tensor \"" + name + "\" is not in " + file);
    }
    return Status();
  }

  Status AddFile(const std::string& file, const SafetensorsIndex* index) {
    uint64_t data_offset = 0;
    HF_ASSIGN_OR_RETURN(SafetensorsHeader header,
                        ReadHeader(*store_, file, data_offset));
    for (SafetensorsEntry& entry : header.entries) {
      const auto [other, is_new] = file_of_.emplace(entry.name, file);
      if (!is_new) {
        return DataLossError("tensor \"" + entry.name + "\" is also in " +
                             other->second);
      }
      if (index != nullptr) {
        const auto listed = index->file_of.find(entry.name);
        if (listed == index->file_of.end() || listed->second != file) {
          return DataLossError(
              "tensor \"" + entry.name + "\" is in it, but the index has it " +
              (listed == index->file_of.end() ? "nowhere"
                                              : "in " + listed->second));
        }
      }
      AddLeaf(std::move(entry), file, data_offset);
    }
    if (index == nullptr) {
      for (auto& [name, text] : header.metadata) {
        metadata_.emplace(name, std::move(text));
      }
    }
    return Status();
  }

  void AddLeaf(SafetensorsEntry entry, const std::string& file,
               uint64_t data_offset) {
    ExtentLeaf& leaf = leaves_.emplace_back();
    LeafInfo& info = leaf.info;
    const uint64_t offset = data_offset + entry.begin;
    info = NamedLeaf(std::move(entry.name), ValueKind::kArray);
    info.shape = std::move(entry.shape);
    info.stored_bytes = entry.end - entry.begin;
    if (!entry.dtype->dtype) {
      // Packed bits that holdfast has no dtype for, as they are.
      info.dtype = DType::kUint8;
      info.value_type = entry.dtype->name;
      info.shape = {static_cast<int64_t>(info.stored_bytes)};
    } else {
      info.dtype = *entry.dtype->dtype;
    }
    if (entry.dtype->bits == 4) {
      leaf.reader = MakeNibbleReader(store_, file, offset, info.shape);
      info.codecs = "packed";
      return;
    }
    leaf.extents.push_back(
        {{Shape(info.shape.size(), 0), info.shape}, file, offset, {}, false});
  }

  Result<std::unique_ptr<Checkpoint>> Finish() {
    const auto kept = metadata_.extract(std::string(kSidecarKey));
    CheckpointInfo info = OneItemInfo(place_.path(), "safetensors");
    if (!metadata_.empty()) {
      info.item_custom_metadata = nlohmann::json(metadata_).dump(
          -1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    HF_ASSIGN_OR_RETURN(
        std::unique_ptr<Checkpoint> checkpoint,
        MakeExtentCheckpoint(std::move(info), store_, std::move(leaves_)));
    if (kept.empty() || !use_sidecar_) return checkpoint;
    return WithSidecarText(std::move(checkpoint), kept.mapped(), place_.path());
  }

  const Place place_;
  const bool use_sidecar_;
  std::shared_ptr<Store> store_;
  std::vector<ExtentLeaf> leaves_;
  std::unordered_map<std::string, std::string> file_of_;
  Metadata metadata_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenSafetensors(const Place& place,
                                                    bool use_sidecar) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
    if (is_directory) {
      return SafetensorsOpener(place, use_sidecar).OpenDirectory("");
    }
    if (place.name().ends_with(kSafetensorsIndexSuffix)) {
      return SafetensorsOpener(place.parent(), use_sidecar)
          .OpenDirectory(place.name());
    }
    return SafetensorsOpener(place, use_sidecar).OpenFile();
  });
}

}  // namespace holdfast
