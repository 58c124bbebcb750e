#include "foreign/extents/load_leaves.h"

#include <cstring>

#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tree/flatten.h"
#include "ground/tree/value_type.h"
#include "holdfast/mapped_tensor.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {
namespace {

class LeafLoader {
 public:
  LeafLoader(const Checkpoint& checkpoint, const LoadOptions& options)
      : checkpoint_(checkpoint),
        leaves_(checkpoint.leaves()),
        options_(options) {}

  Result<LoadResult> Load() {
    Stopwatch watch;
    HF_RETURN_IF_ERROR(Select());
    arrays_.resize(selected_.size());
    is_mapped_.resize(selected_.size());
    if (options_.map != MapMode::kNever) HF_RETURN_IF_ERROR(Map());
    HF_RETURN_IF_ERROR(Allocate());
    HF_ASSIGN_OR_RETURN(Stats stats,
                        checkpoint_.ReadInto(requests_, options_.run));
    std::vector<UnflattenEntry> entries;
    for (size_t i = 0; i < selected_.size(); ++i) {
      HF_ASSIGN_OR_RETURN(Tree value, ValueOf(i));
      entries.push_back({PathOf(leaves_[selected_[i]]), std::move(value)});
    }
    LoadResult result;
    result.tree = Tree::Dict();
    if (!entries.empty()) {
      HF_ASSIGN_OR_RETURN(result.tree, Unflatten(std::move(entries)));
    }
    result.stats = stats;
    result.stats.mapped_bytes = mapped_bytes_;
    result.stats.total_seconds = watch.Lap();
    return result;
  }

 private:
  Status Select() {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const LeafInfo& leaf = leaves_[i];
      if (!IsSelected(options_.names, leaf.name)) continue;
      HF_RETURN_IF_ERROR(leaf.problem);
      selected_.push_back(i);
    }
    return checkpoint_.CheckNames(options_.names);
  }

  Status Map() {
    HF_ASSIGN_OR_RETURN(
        std::vector<MappedTensor> tensors,
        MapTensors(checkpoint_, selected_, options_.map_options, options_.run));
    for (size_t number = 0; number < selected_.size(); ++number) {
      const LeafInfo& leaf = leaves_[selected_[number]];
      if (leaf.kind != ValueKind::kArray) continue;
      MappedTensor& tensor = tensors[number];
      is_mapped_[number] = tensor.why_not.empty();
      if (is_mapped_[number]) {
        mapped_bytes_ += tensor.array.byte_count();
        arrays_[number] = std::move(tensor.array);
      } else if (options_.map == MapMode::kRequired) {
        return InvalidArgumentError(
            "leaf " + leaf.name + " cannot be mapped: " + tensor.why_not +
            "; read it, or convert the checkpoint to safetensors");
      }
    }
    return Status();
  }

  Status Allocate() {
    MemoryNeed need;
    for (size_t number = 0; number < selected_.size(); ++number) {
      const LeafInfo& leaf = leaves_[selected_[number]];
      if (!HasElements(leaf.kind) || is_mapped_[number]) continue;
      HF_RETURN_IF_ERROR(need.Add(leaf.decoded_bytes));
    }
    for (size_t number = 0; number < selected_.size(); ++number) {
      const LeafInfo& leaf = leaves_[selected_[number]];
      if (!HasElements(leaf.kind) || is_mapped_[number]) continue;
      Array& array = arrays_[number];
      HF_ASSIGN_OR_RETURN(array, Array::Allocate(*leaf.dtype, leaf.shape));
      requests_.push_back({selected_[number], Shape(leaf.shape.size(), 0),
                           array.mutable_view()});
    }
    return Status();
  }

  Result<Tree> ValueOf(size_t number) {
    const size_t i = selected_[number];
    const LeafInfo& leaf = leaves_[i];
    switch (leaf.kind) {
      case ValueKind::kArray:
        return ArrayOf(leaf, std::move(arrays_[number]));
      case ValueKind::kScalar: {
        Scalar scalar;
        scalar.dtype = *leaf.dtype;
        std::memcpy(scalar.bytes.data(), arrays_[number].view().data,
                    DTypeBytes(scalar.dtype));
        return Tree(scalar);
      }
      case ValueKind::kString:
      case ValueKind::kJson: {
        HF_ASSIGN_OR_RETURN(std::string text, checkpoint_.ReadText(i));
        return Tree(std::move(text));
      }
      case ValueKind::kBytes: {
        HF_ASSIGN_OR_RETURN(std::string text, checkpoint_.ReadText(i));
        return Tree::ByteString(std::move(text));
      }
      case ValueKind::kObject:
        return ObjectOf(i);
      default:
        return EmptyValue(leaf.kind);
    }
  }

  Result<Tree> ObjectOf(size_t i) const {
    HF_ASSIGN_OR_RETURN(const std::string file, checkpoint_.ReadText(i));
    Result<PickleValue> value = ReadTorchFile(file);
    if (!value.ok()) {
      return value.status().WithContext("leaf " + leaves_[i].name);
    }
    return Tree::Object(std::any(std::move(value).value()));
  }

  static Tree ArrayOf(const LeafInfo& leaf, Array array) {
    if (leaf.value_type != kValueTypeJaxArray) return Tree(std::move(array));
    ArrayTraits traits{leaf.sharding_json, leaf.prng_impl, {}};
    if (leaf.write_shape && *leaf.write_shape != leaf.shape) {
      traits.write_shape = *leaf.write_shape;
    }
    return Tree::JaxArray(std::move(array), std::make_shared<const ArrayTraits>(
                                                std::move(traits)));
  }

  const Checkpoint& checkpoint_;
  const std::vector<LeafInfo>& leaves_;
  const LoadOptions& options_;
  std::vector<size_t> selected_;
  std::vector<Array>
      arrays_;  // as selected_; empty without elements
  std::vector<bool> is_mapped_;  // as selected_
  uint64_t mapped_bytes_ = 0;
  std::vector<ReadRequest> requests_;
};

}  // namespace

Result<LoadResult> LoadLeaves(const Checkpoint& checkpoint,
                              const LoadOptions& options) {
  return LeafLoader(checkpoint, options).Load();
}

}  // namespace holdfast
