// SaveOptions::also for safetensors: plans the files that a conversion would
// write, and the place of each of the save's arrays in them.
#include <memory>
#include <unordered_map>
#include <utility>

#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "engine/restore/leaf_request.h"
#include "engine/save/also_format.h"
#include "engine/save/save_plan.h"
#include "foreign/extents/target_pieces.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/safetensors_layout.h"
#include "ground/base/status_macros.h"
#include "ground/tree/key_path.h"
#include "ground/tree/value_type.h"

namespace holdfast {
namespace {

// Metadata that Hugging Face's loaders expect in every file.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

class Planner {
 public:
  Planner(const SavePlan& save, uint64_t shard_bytes_max) : save_(save) {
    target_.options.shard_bytes_max = shard_bytes_max;
    const SaveOptions& options = *save.options;
    target_.source_info.custom_metadata =
        SplitOwnDocuments(options.custom_metadata).users;
    target_.source_info.item_custom_metadata =
        SplitOwnDocuments(options.item_custom_metadata).users;
    target_.source_info.value_metadata_tree = options.value_metadata_tree;
  }

  Result<AlsoFiles> Plan() {
    for (size_t i = 0; i < save_.arrays.size(); ++i) {
      arrays_.emplace(save_.arrays[i].leaf, &save_.arrays[i]);
    }
    for (size_t i = 0; i < save_.leaves.size(); ++i) AddLeaf(i);
    HF_ASSIGN_OR_RETURN(const SafetensorsLayout layout,
                        LayOutSafetensors(target_, kMetadata));
    return FilesOf(layout);
  }

 private:
  void AddLeaf(size_t number) {
    const FlatLeaf& flat = save_.leaves[number];
    TargetLeaf leaf;
    leaf.source = number;
    leaf.name = ParamName(flat.path);
    if (leaf.name.empty()) leaf.name = "value";
    for (const KeyElement& element : flat.path) {
      leaf.key.push_back(element.key);
      leaf.key_kinds.push_back(element.kind);
    }
    leaf.kind = KindOfValueType(flat.value_type);
    leaf.value_type = flat.value_type;
    if (leaf.kind == ValueKind::kString && flat.leaf->is_leaf() &&
        flat.leaf->leaf_kind() == LeafKind::kString) {
      leaf.text = flat.leaf->text();
    }
    if (HasElements(leaf.kind)) {
      const auto array = arrays_.find(number);
      if (array == arrays_.end()) return;  // a TypeHandler's array
      AddArray(*array->second, *flat.leaf, leaf);
    }
    target_.leaves.push_back(std::move(leaf));
  }

  static void AddArray(const PlannedArray& array, const Tree& value,
                       TargetLeaf& leaf) {
    leaf.dtype = array.layout->dtype();
    leaf.shape = array.source.shape();
    if (leaf.kind == ValueKind::kScalar) {
      // Only the size matters here, since the value is written as an array.
      leaf.text.resize(DTypeBytes(leaf.dtype));
    }
    if (leaf.value_type != kValueTypeJaxArray) return;
    leaf.write_shape = array.layout->write_shape;
    leaf.prng_impl = value.array_traits().prng_impl;
    leaf.sharding_json = value.array_traits().sharding_json;
  }

  Result<AlsoFiles> FilesOf(const SafetensorsLayout& layout) const {
    AlsoFiles files;
    for (const SafetensorsLayout::File& file : layout.files) {
      const auto number = static_cast<uint32_t>(files.files.size());
      files.files.push_back({file.name, file.byte_count});
      files.pieces.push_back({{number, 0}, file.header});
    }
    if (!layout.index.empty()) {
      files.texts.push_back({std::string(kSafetensorsIndexFile), layout.index});
    }
    std::unordered_map<size_t, AlsoFiles::Place> places;  // by leaf of the save
    for (const size_t i : layout.stored) {
      const TargetLeaf& leaf = target_.leaves[i];
      const AlsoFiles::Place place{static_cast<uint32_t>(layout.places[i].file),
                                   layout.places[i].offset};
      if (HasElements(leaf.kind)) {
        places.emplace(leaf.source, place);
      } else if (!leaf.text.empty()) {
        files.pieces.push_back({place, leaf.text});
      }
    }
    for (const PlannedArray& array : save_.arrays) {
      files.arrays.push_back(places.at(array.leaf));
    }
    return files;
  }

  const SavePlan& save_;
  TargetPlan target_;
  std::unordered_map<size_t, const PlannedArray*> arrays_;  // by leaf
};

class Safetensors final : public AlsoFormat {
 public:
  explicit Safetensors(uint64_t shard_bytes_max)
      : shard_bytes_max_(shard_bytes_max) {}

  Result<AlsoFiles> Plan(const SavePlan& plan) const override {
    return Planner(plan, shard_bytes_max_).Plan();
  }

 private:
  const uint64_t shard_bytes_max_;
};

}  // namespace

std::shared_ptr<const AlsoFormat> AlsoSafetensors(uint64_t shard_bytes_max) {
  return std::make_shared<Safetensors>(shard_bytes_max);
}

}  // namespace holdfast
