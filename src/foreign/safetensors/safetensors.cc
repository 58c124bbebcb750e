#include "foreign/safetensors/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "engine/check/checked_store.h"
#include "engine/commit/known_formats.h"
#include "engine/restore/leaf_request.h"
#include "foreign/extents/extent_checkpoint.h"
#include "foreign/extents/packed_reader.h"
#include "foreign/safetensors/safetensors_header.h"
#include "foreign/safetensors/safetensors_shards.h"
#include "foreign/safetensors/weight_index.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_set.h"

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
  SafetensorsOpener(const Place& place, bool use_sidecar,
                    std::shared_ptr<const DigestIndex> list)
      : place_(place), use_sidecar_(use_sidecar), list_(std::move(list)) {}

  Result<std::unique_ptr<Checkpoint>> OpenFile() {
    HF_RETURN_IF_ERROR(AddFiles(place_.parent(), {place_.name()}, nullptr));
    if (!shards_.empty()) HF_RETURN_IF_ERROR(CheckIsNoShard(place_));
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
    HF_RETURN_IF_ERROR(CheckNoPartIsMissing({files.begin(), files.end()})
                           .WithContext(place_.path()));
    HF_RETURN_IF_ERROR(AddFiles(place_, files, nullptr));
    return Finish();
  }

 private:
  Result<std::unique_ptr<Checkpoint>> OpenIndex(const std::string& name) {
    const Place file = place_ / name;
    HF_ASSIGN_OR_RETURN(WeightIndex index, ReadWeightIndex(file));
    const Status added =
        OfIndexedFiles(AddFiles(place_, index.Files(), &index));
    if (!added.ok()) return added.WithContext(file.path());
    metadata_ = std::move(index.metadata);
    return Finish();
  }

  Status AddFiles(const Place& directory, const std::set<std::string>& files,
                  const WeightIndex* index) {
    std::map<std::string, Place> places;
    for (const std::string& file : files) places[file] = directory / file;
    HF_ASSIGN_OR_RETURN(store_, MakeFileSet(places));
    if (list_ != nullptr) {
      store_ = std::make_shared<CheckedStore>(store_, list_);
    }
    maker_.emplace(store_, list_);
    // Duplicate names within a file are found when its header is read.
    found_is_needed_ = files.size() > 1 || index != nullptr;
    for (const std::string& file : files) {
      const Status added = AddFile(file, index);
      if (!added.ok()) return added.WithContext((directory / file).path());
    }
    return index == nullptr ? Status() : found_.CheckAll(*index);
  }

  Status AddFile(const std::string& file, const WeightIndex* index) {
    uint64_t data_offset = 0;
    Result<SafetensorsHeader> header = ReadHeader(*store_, file, data_offset);
    if (!header.ok()) {
      return WithWhatFileIs(header.status(), *store_, file, "safetensors");
    }
    HF_ASSIGN_OR_RETURN(const auto origins, TakeShardOrigins(header->metadata));
    if (!found_is_needed_) maker_->Reserve(header->entries.size());
    for (SafetensorsEntry& entry : header->entries) {
      if (!origins) {
        if (found_is_needed_) {
          HF_RETURN_IF_ERROR(found_.Add(entry.name, file, index));
        }
        maker_->Add(LeafOf(std::move(entry), file, data_offset));
        continue;
      }
      const auto shard = shards_.find(entry.name);
      if (shard == shards_.end()) {
        HF_RETURN_IF_ERROR(found_.Add(entry.name, file, index));
      }
      HF_RETURN_IF_ERROR(
          AddShard(std::move(entry), file, data_offset, *origins));
    }
    if (index == nullptr) {
      for (auto& [name, text] : header->metadata) {
        metadata_.emplace(name, std::move(text));
      }
    }
    return Status();
  }

  // Adds a part of a tensor. Other files may have other parts.
  Status AddShard(SafetensorsEntry entry, const std::string& file,
                  uint64_t data_offset, const ShardOrigins& origins) {
    const std::string name = entry.name;
    HF_ASSIGN_OR_RETURN(const Box box, ShardBox(entry, origins));
    ExtentLeaf part = LeafOf(std::move(entry), file, data_offset);
    const auto [known, is_first] = shards_.emplace(name, parted_.size());
    if (!is_first) {
      return JoinShard(std::move(part), box, parted_[known->second]);
    }
    parted_.push_back(std::move(part));
    return PlaceShard(box, parted_.back());
  }

  ExtentLeaf LeafOf(SafetensorsEntry entry, const std::string& file,
                    uint64_t data_offset) const {
    ExtentLeaf leaf;
    LeafInfo& info = leaf.info;
    const uint64_t offset = data_offset + entry.begin;
    info = NamedLeaf(std::move(entry.name), ValueKind::kArray);
    info.shape = std::move(entry.shape);
    info.stored_bytes = entry.end - entry.begin;
    if (!entry.dtype->dtype) {
      // Packed bits of a dtype that holdfast lacks are returned unchanged.
      info.dtype = DType::kUint8;
      info.value_type = entry.dtype->name;
      info.shape = {static_cast<int64_t>(info.stored_bytes)};
    } else {
      info.dtype = *entry.dtype->dtype;
    }
    if (entry.dtype->bits == 4) {
      leaf.reader = MakeNibbleReader(store_, file, offset, info.shape);
      info.codecs = "packed";
      return leaf;
    }
    leaf.extents = ExtentsOf(info, file, offset);
    return leaf;
  }

  // Returns one extent for the tensor, or one for each checksum that the list
  // has for it. A view takes over these checksums.
  std::vector<Extent> ExtentsOf(const LeafInfo& info, const std::string& file,
                                uint64_t offset) const {
    const uint64_t end = offset + info.stored_bytes;
    std::vector<Extent> whole = {
        {{Shape(info.shape.size(), 0), info.shape}, file, offset, {}, false}};
    if (list_ == nullptr || info.shape.empty() || info.stored_bytes == 0) {
      return whole;
    }
    const uint64_t row_bytes = info.stored_bytes / info.shape[0];
    std::vector<Extent> parts;
    uint64_t at = offset;
    for (const ValueDigest& row : list_->RowsOf(file)) {
      if (row.offset < offset || row.offset >= end) continue;
      const bool fits = row.offset == at && row.byte_count > 0 &&
                        row.byte_count % row_bytes == 0 &&
                        row.byte_count <= end - at;
      if (!fits) return whole;
      Extent part = whole[0];
      part.offset = at;
      part.box.origin[0] = static_cast<int64_t>((at - offset) / row_bytes);
      part.box.shape[0] = static_cast<int64_t>(row.byte_count / row_bytes);
      parts.push_back(std::move(part));
      at += row.byte_count;
    }
    return at == end ? parts : whole;
  }

  Result<std::unique_ptr<Checkpoint>> Finish() {
    const auto kept = metadata_.extract(std::string(kSidecarKey));
    for (ExtentLeaf& leaf : parted_) {
      CheckIsCovered(leaf);
      maker_->Add(std::move(leaf));
    }
    CheckpointInfo info = OneItemInfo(place_.path(), "safetensors");
    if (!metadata_.empty()) {
      const std::string all = nlohmann::json(metadata_).dump(
          -1, ' ', false, nlohmann::json::error_handler_t::replace);
      info.item_custom_metadata = SplitOwnDocuments(all).users;
    }
    std::unique_ptr<Checkpoint> checkpoint = maker_->Finish(std::move(info));
    if (kept.empty() || !use_sidecar_) return checkpoint;
    return WithSidecarText(std::move(checkpoint), kept.mapped(), place_.path());
  }

  const Place place_;
  const bool use_sidecar_;
  const std::shared_ptr<const DigestIndex> list_;
  std::shared_ptr<Store> store_;
  std::optional<ExtentCheckpointMaker> maker_;
  FoundWeights found_;
  bool found_is_needed_ = true;
  // The leaves of tensors that may be sharded, and their indices by name.
  std::vector<ExtentLeaf> parted_;
  std::unordered_map<std::string, size_t> shards_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenSafetensors(
    const Place& place, bool use_sidecar,
    std::shared_ptr<const DigestIndex> list) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
    if (is_directory) {
      return SafetensorsOpener(place, use_sidecar, list).OpenDirectory("");
    }
    if (place.name().ends_with(kSafetensorsIndexSuffix)) {
      return SafetensorsOpener(place.parent(), use_sidecar, list)
          .OpenDirectory(place.name());
    }
    return SafetensorsOpener(place, use_sidecar, list).OpenFile();
  });
}

}  // namespace holdfast
