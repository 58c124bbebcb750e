#include "interop/safetensors_target.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "interop/safetensors.h"
#include "interop/safetensors_header.h"
#include "interop/target_pieces.h"
#include "interop/target_sidecar.h"
#include "place/directory_ops.h"
#include "storage/positioned_file.h"

namespace holdfast {
namespace {

constexpr uint64_t kShardBytesDefault = 5'000'000'000;

using StringMap = std::map<std::string, std::string>;

// The members of a JSON object of strings; nullopt for any other text.
std::optional<StringMap> StringsOf(const std::string& json) {
  StringMap strings;
  if (json.empty()) return strings;
  const auto document = nlohmann::json::parse(json, nullptr, false);
  if (!document.is_object()) return std::nullopt;
  for (const auto& [name, value] : document.items()) {
    if (!value.is_string()) return std::nullopt;
    strings[name] = value.get<std::string>();
  }
  return strings;
}

// A tensor to be written, and the leaf that it belongs to.
struct PlannedTensor {
  size_t leaf = 0;
  SafetensorsEntry entry;
};

struct PlannedFile {
  std::string name;
  std::vector<PlannedTensor> tensors;  // in the order of the file
  std::string header;
  uint64_t byte_count = 0;
};

struct TensorPlace {
  size_t file = 0;
  uint64_t offset = 0;  // of the first byte, in the file
};

class SafetensorsTarget final : public FormatTarget {
 public:
  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool resume) override {
    return CatchBadAlloc([&]() -> Status {
      leaves_ = plan.leaves;
      directory_ = directory;
      sync_ = plan.options.sync;
      HF_ASSIGN_OR_RETURN(std::vector<PlannedTensor> tensors, PlanTensors());
      PlanFiles(plan, std::move(tensors));
      PlanMetadata(plan);
      HF_RETURN_IF_ERROR(PlanHeaders());
      for (const PlannedFile& file : files_) {
        HF_ASSIGN_OR_RETURN(opened_.emplace_back(),
                            PositionedFile::Open(directory + "/" + file.name,
                                                 file.byte_count, resume));
      }
      return Status();
    });
  }

  std::string OneFile() const override {
    return files_.size() == 1 ? files_.front().name : "";
  }

  std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const override {
    return CPiecesOf(leaves_[leaf], bytes_max);
  }

  uint64_t FilePosition(size_t leaf) const override { return order_[leaf]; }

  Result<std::string> Write(size_t leaf, const Box& box,
                            std::string_view elements) override {
    HF_ASSIGN_OR_RETURN(const uint64_t offset,
                        CPieceOffset(leaves_[leaf], box, elements));
    const TensorPlace& place = places_[leaf];
    HF_RETURN_IF_ERROR(
        opened_[place.file]->WriteAt(place.offset + offset, elements));
    return std::string();
  }

  Status Restore(size_t, const Box&, std::string_view) override {
    return Status();
  }

  Status SyncData() override {
    if (!sync_) return Status();
    for (const auto& file : opened_) HF_RETURN_IF_ERROR(file->Sync());
    return SyncDirectory(directory_);
  }

  // Headers come last: a file without one is no safetensors file.
  Status Finish() override {
    return CatchBadAlloc([&]() -> Status {
      for (size_t i = 0; i < files_.size(); ++i) {
        for (const PlannedTensor& tensor : files_[i].tensors) {
          const TargetLeaf& leaf = leaves_[tensor.leaf];
          if (HasPieces(leaf)) continue;
          HF_RETURN_IF_ERROR(
              opened_[i]->WriteAt(places_[tensor.leaf].offset, leaf.text));
        }
        HF_RETURN_IF_ERROR(opened_[i]->WriteAt(0, files_[i].header));
      }
      if (files_.size() > 1) HF_RETURN_IF_ERROR(WriteIndex());
      return SyncData();
    });
  }

 private:
  // Every value that has a tensor; `stored_` names them.
  Result<std::vector<PlannedTensor>> PlanTensors() {
    constexpr auto kCanBeName = [](const std::string& name) {
      return name != kSafetensorsMetadataKey && IsValidUtf8(name);
    };
    HF_ASSIGN_OR_RETURN(
        std::vector<RawValue> values,
        RawValuesOf(leaves_, "safetensors", "tensor", kCanBeName));
    std::vector<PlannedTensor> tensors;
    stored_.resize(leaves_.size());
    for (RawValue& value : values) {
      const std::string& name = leaves_[value.leaf].name;
      stored_[value.leaf] = name;
      tensors.push_back({value.leaf,
                         {name, &SafetensorsDTypeOf(value.dtype),
                          std::move(value.shape), 0, value.byte_count}});
    }
    return tensors;
  }

  // Splits as HF splits a state dict: in order, with a new file when the next
  // tensor does not fit, and a file of its own for one that is too large for
  // any.
  void PlanFiles(const TargetPlan& plan, std::vector<PlannedTensor> tensors) {
    const uint64_t bytes_max = plan.options.shard_bytes_max != 0
                                   ? plan.options.shard_bytes_max
                                   : kShardBytesDefault;
    PlannedFile filling;
    uint64_t filled_bytes = 0;
    for (PlannedTensor& tensor : tensors) {
      const uint64_t bytes = tensor.entry.end;
      total_bytes_ += bytes;
      if (bytes > bytes_max) {
        files_.emplace_back().tensors.push_back(std::move(tensor));
        continue;
      }
      if (bytes > bytes_max - filled_bytes) {
        files_.push_back(std::move(filling));
        filling = PlannedFile();
        filled_bytes = 0;
      }
      filled_bytes += bytes;
      filling.tensors.push_back(std::move(tensor));
    }
    if (!filling.tensors.empty() || files_.empty()) {
      files_.push_back(std::move(filling));
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      char name[64];
      std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors",
                    i + 1, files_.size());
      files_[i].name =
          files_.size() == 1 ? std::string(kSafetensorsFile) : name;
    }
  }

  void PlanMetadata(const TargetPlan& plan) {
    TargetPlan seen = plan;
    std::optional<StringMap> strings =
        StringsOf(plan.source_info.item_custom_metadata);
    if (strings && !strings->contains(std::string(kSidecarKey))) {
      metadata_ = *std::move(strings);
      seen.source_info.item_custom_metadata.clear();
    }
    if (NeedsSidecar(seen, "safetensors")) {
      metadata_[std::string(kSidecarKey)] =
          SidecarText(SidecarOf(plan, stored_));
    }
  }

  Status PlanHeaders() {
    places_.resize(leaves_.size());
    order_.resize(leaves_.size());
    uint64_t number = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      PlannedFile& file = files_[i];
      // The reference writer sorts like this, wide dtypes first, so that every
      // tensor is aligned; equal sources give equal files.
      std::sort(file.tensors.begin(), file.tensors.end(), ComesBefore);
      SafetensorsHeader header;
      header.metadata = metadata_;
      // Each file has the metadata of the whole source, except the tree, which
      // is in the index.
      if (files_.size() > 1) header.metadata.erase(std::string(kSidecarKey));
      uint64_t end = 0;
      for (PlannedTensor& tensor : file.tensors) {
        tensor.entry.begin = end;
        tensor.entry.end += end;
        end = tensor.entry.end;
        header.entries.push_back(tensor.entry);
      }
      HF_ASSIGN_OR_RETURN(file.header, SafetensorsHeaderBytes(header));
      file.byte_count = file.header.size() + end;
      for (const PlannedTensor& tensor : file.tensors) {
        places_[tensor.leaf] = {i, file.header.size() + tensor.entry.begin};
        order_[tensor.leaf] = number++;
      }
    }
    return Status();
  }

  static bool ComesBefore(const PlannedTensor& a, const PlannedTensor& b) {
    if (a.entry.dtype != b.entry.dtype) return a.entry.dtype > b.entry.dtype;
    return a.entry.name < b.entry.name;
  }

  // The bytes of json.dumps(indent=2, sort_keys=True) and a line feed.
  Status WriteIndex() {
    nlohmann::json index;
    for (const auto& [name, text] : metadata_) index["metadata"][name] = text;
    index["metadata"]["total_size"] = total_bytes_;
    nlohmann::json& map = index["weight_map"] = nlohmann::json::object();
    for (const PlannedFile& file : files_) {
      for (const PlannedTensor& tensor : file.tensors) {
        map[tensor.entry.name] = file.name;
      }
    }
    return WriteTargetFile(directory_, kSafetensorsIndexFile,
                           index.dump(2, ' ', true) + "\n", sync_);
  }

  std::vector<TargetLeaf> leaves_;
  std::string directory_;
  bool sync_ = true;
  std::vector<std::string> stored_;  // as leaves_; "" without a tensor
  std::vector<PlannedFile> files_;
  std::vector<std::unique_ptr<PositionedFile>> opened_;  // as files_
  std::vector<TensorPlace> places_;                      // as leaves_
  std::vector<uint64_t> order_;                          // as leaves_
  StringMap metadata_;
  uint64_t total_bytes_ = 0;
};

}  // namespace

std::unique_ptr<FormatTarget> MakeSafetensorsTarget() {
  return std::make_unique<SafetensorsTarget>();
}

}  // namespace holdfast
