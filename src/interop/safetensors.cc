#include "interop/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/restore/leaf_request.h"
#include "interop/extent_checkpoint.h"
#include "interop/packed_reader.h"
#include "interop/safetensors_header.h"
#include "interop/tree_sidecar.h"
#include "interop/weight_index.h"
#include "place/directory_ops.h"
#include "place/file_set.h"

namespace holdfast {
namespace {

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
    HF_ASSIGN_OR_RETURN(const std::string index,
                        ChooseIndex(place_, names, kSafetensorsIndexSuffix,
                                    kSafetensorsIndexFile));
    if (!index.empty()) return OpenIndex(index);
    std::set<std::string> files;
    for (const std::string& name : names) {
      if (name.ends_with(kSafetensorsSuffix)) files.insert(name);
    }
    HF_RETURN_IF_ERROR(AddFiles(place_, files, nullptr));
    return Finish();
  }

 private:
  Result<std::unique_ptr<Checkpoint>> OpenIndex(const std::string& name) {
    const Place file = place_ / name;
    HF_ASSIGN_OR_RETURN(WeightIndex index, ReadWeightIndex(file));
    const Status added = AddFiles(place_, index.Files(), &index);
    if (!added.ok()) return added.WithContext(file.path());
    metadata_ = std::move(index.metadata);
    return Finish();
  }

  Status AddFiles(const Place& directory, const std::set<std::string>& files,
                  const WeightIndex* index) {
    std::map<std::string, Place> places;
    for (const std::string& file : files) places[file] = directory / file;
    HF_ASSIGN_OR_RETURN(store_, MakeFileSet(places));
    for (const std::string& file : files) {
      const Status added = AddFile(file, index);
      if (!added.ok()) return added.WithContext((directory / file).path());
    }
    return index == nullptr ? Status() : found_.CheckAll(*index);
  }

  Status AddFile(const std::string& file, const WeightIndex* index) {
    uint64_t data_offset = 0;
    HF_ASSIGN_OR_RETURN(SafetensorsHeader header,
                        ReadHeader(*store_, file, data_offset));
    for (SafetensorsEntry& entry : header.entries) {
      HF_RETURN_IF_ERROR(found_.Add(entry.name, file, index));
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
  FoundWeights found_;
  std::map<std::string, std::string> metadata_;
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
