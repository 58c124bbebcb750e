#include "foreign/safetensors/safetensors_layout.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "foreign/extents/target_pieces.h"
#include "foreign/extents/target_sidecar.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/safetensors_header.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"

namespace holdfast {
namespace {

constexpr uint64_t kShardBytesDefault = 5'000'000'000;

using StringMap = std::map<std::string, std::string>;

// Returns the members of a JSON object of strings; nullopt for any other JSON.
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

bool ComesBefore(const PlannedTensor& a, const PlannedTensor& b) {
  if (a.entry.dtype != b.entry.dtype) return a.entry.dtype > b.entry.dtype;
  return a.entry.name < b.entry.name;
}

class LayoutPlanner {
 public:
  explicit LayoutPlanner(const TargetPlan& plan) : plan_(plan) {}

  Result<SafetensorsLayout> Plan(const StringMap& metadata) {
    HF_ASSIGN_OR_RETURN(std::vector<PlannedTensor> tensors, PlanTensors());
    PlanFiles(std::move(tensors));
    PlanMetadata();
    metadata_.insert(metadata.begin(), metadata.end());
    HF_RETURN_IF_ERROR(PlanHeaders());
    if (files_.size() > 1) layout_.index = IndexText();
    return std::move(layout_);
  }

 private:
  // Plans a tensor for every value that has one. Sets `names_`.
  Result<std::vector<PlannedTensor>> PlanTensors() {
    constexpr auto kCanBeName = [](const std::string& name) {
      return name != kSafetensorsMetadataKey && IsValidUtf8(name);
    };
    HF_ASSIGN_OR_RETURN(
        std::vector<RawValue> values,
        RawValuesOf(plan_.leaves, "safetensors", "tensor", kCanBeName));
    std::vector<PlannedTensor> tensors;
    names_.resize(plan_.leaves.size());
    for (RawValue& value : values) {
      const std::string& name = plan_.leaves[value.leaf].name;
      names_[value.leaf] = name;
      layout_.stored.push_back(value.leaf);
      tensors.push_back({value.leaf,
                         {name, &SafetensorsDTypeOf(value.dtype),
                          std::move(value.shape), 0, value.byte_count}});
    }
    return tensors;
  }

  // Splits the tensors as HF splits a state dict: in order, with a new file
  // when the next tensor does not fit. A tensor that is larger than a file may
  // be gets its own file.
  void PlanFiles(std::vector<PlannedTensor> tensors) {
    const uint64_t bytes_max = plan_.options.shard_bytes_max != 0
                                   ? plan_.options.shard_bytes_max
                                   : kShardBytesDefault;
    std::vector<PlannedTensor> filling;
    uint64_t filled_bytes = 0;
    for (PlannedTensor& tensor : tensors) {
      const uint64_t bytes = tensor.entry.end;
      total_bytes_ += bytes;
      if (bytes > bytes_max) {
        files_.emplace_back().push_back(std::move(tensor));
        continue;
      }
      if (bytes > bytes_max - filled_bytes) {
        files_.push_back(std::move(filling));
        filling.clear();
        filled_bytes = 0;
      }
      filled_bytes += bytes;
      filling.push_back(std::move(tensor));
    }
    if (!filling.empty() || files_.empty()) {
      files_.push_back(std::move(filling));
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      char name[64];
      std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors",
                    i + 1, files_.size());
      layout_.files.push_back(
          {files_.size() == 1 ? std::string(kSafetensorsFile) : name, "", 0});
    }
  }

  void PlanMetadata() {
    TargetPlan seen = plan_;
    std::optional<StringMap> strings =
        StringsOf(plan_.source_info.item_custom_metadata);
    if (strings && !strings->contains(std::string(kSidecarKey))) {
      metadata_ = *std::move(strings);
      seen.source_info.item_custom_metadata.clear();
    }
    if (NeedsSidecar(seen, "safetensors")) {
      metadata_[std::string(kSidecarKey)] =
          SidecarText(SidecarOf(plan_, names_));
    }
  }

  Status PlanHeaders() {
    layout_.places.resize(plan_.leaves.size());
    layout_.order.resize(plan_.leaves.size());
    uint64_t number = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      std::vector<PlannedTensor>& tensors = files_[i];
      SafetensorsLayout::File& file = layout_.files[i];
      // The reference writer sorts like this, wide dtypes first, so that every
      // tensor is aligned. Equal sources give equal files.
      std::sort(tensors.begin(), tensors.end(), ComesBefore);
      SafetensorsHeader header;
      header.metadata = metadata_;
      // Each of several files has all metadata except the tree, which is in the
      // index.
      if (files_.size() > 1) header.metadata.erase(std::string(kSidecarKey));
      uint64_t end = 0;
      for (PlannedTensor& tensor : tensors) {
        tensor.entry.begin = end;
        tensor.entry.end += end;
        end = tensor.entry.end;
        header.entries.push_back(tensor.entry);
      }
      HF_ASSIGN_OR_RETURN(file.header, SafetensorsHeaderBytes(header));
      file.byte_count = file.header.size() + end;
      for (const PlannedTensor& tensor : tensors) {
        layout_.places[tensor.leaf] = {i,
                                       file.header.size() + tensor.entry.begin};
        layout_.order[tensor.leaf] = number++;
      }
    }
    return Status();
  }

  // Returns what json.dumps(indent=2, sort_keys=True) and a line feed give.
  std::string IndexText() const {
    nlohmann::json index;
    for (const auto& [name, text] : metadata_) index["metadata"][name] = text;
    index["metadata"]["total_size"] = total_bytes_;
    nlohmann::json& map = index["weight_map"] = nlohmann::json::object();
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const PlannedTensor& tensor : files_[i]) {
        map[tensor.entry.name] = layout_.files[i].name;
      }
    }
    return index.dump(2, ' ', true) + "\n";
  }

  const TargetPlan& plan_;
  std::vector<std::string> names_;  // by leaf of the plan; "" without a tensor
  std::vector<std::vector<PlannedTensor>> files_;  // each in the file's order
  StringMap metadata_;
  uint64_t total_bytes_ = 0;
  SafetensorsLayout layout_;
};

}  // namespace

Result<SafetensorsLayout> LayOutSafetensors(const TargetPlan& plan,
                                            const StringMap& metadata) {
  return LayoutPlanner(plan).Plan(metadata);
}

}  // namespace holdfast
