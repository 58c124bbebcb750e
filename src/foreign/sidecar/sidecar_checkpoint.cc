// WithSidecar: a checkpoint read through its sidecar.
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/extent_read.h"
#include "engine/restore/leaf_request.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

constexpr size_t kNoBase = std::numeric_limits<size_t>::max();
// Casts from raw bits use this much memory.
constexpr uint64_t kCastBytesMax = uint64_t{4} << 20;

// A leaf, and its place in the base.
struct SeenLeaf {
  size_t base = kNoBase;
  bool adds_axis = false;  // the base has a last axis: real and imaginary
  std::string text;        // if there is no base
};

class SidecarCheckpoint final : public Checkpoint, public StoredExtents {
 public:
  explicit SidecarCheckpoint(std::unique_ptr<Checkpoint> base)
      : base_(std::move(base)) {
    info_ = base_->info();
  }

  Status Apply(const TreeSidecar& sidecar) {
    for (size_t i = 0; i < base_->leaves().size(); ++i) {
      numbers_.emplace(base_->leaves()[i].name, i);
    }
    HF_RETURN_IF_ERROR(sidecar.is_partial ? ApplyPart(sidecar)
                                          : ApplyWhole(sidecar));
    numbers_.clear();
    if (sidecar.is_partial) return Status();
    if (!sidecar.items.empty()) info_.items = sidecar.items;
    info_.custom_metadata = sidecar.custom_metadata;
    const SplitMetadata split = SplitOwnDocuments(sidecar.item_custom_metadata);
    info_.item_custom_metadata = split.users;
    info_.item_documents = WithTreeDocuments("", split.documents);
    info_.value_metadata_tree = sidecar.value_metadata_tree;
    return Status();
  }

  Result<LeafExtents> ExtentsOf(size_t leaf) const override {
    const SeenLeaf& seen = leaves_[leaf];
    if (seen.base == kNoBase) return LeafExtents{"in the sidecar", {}};
    HF_ASSIGN_OR_RETURN(LeafExtents found,
                        holdfast::ExtentsOf(*base_, seen.base));
    if (!seen.adds_axis) return found;
    // A complex element is two adjacent elements of the base.
    const size_t part_bytes = DTypeBytes(*infos_[leaf].dtype) / 2;
    for (Extent& extent : found.extents) {
      Shape strides = ExtentStrides(extent, part_bytes);
      const bool are_neighbours =
          extent.box.shape.back() == 2 &&
          strides.back() == static_cast<int64_t>(part_bytes);
      if (!are_neighbours) return LeafExtents{"parts that lie apart", {}};
      strides.pop_back();
      extent.strides = std::move(strides);
      extent.box.origin.pop_back();
      extent.box.shape.pop_back();
    }
    return found;
  }

  const ValueDigest* DigestOf(const std::string& file, uint64_t offset,
                              uint64_t byte_count) const override {
    return holdfast::DigestOf(*base_, file, offset, byte_count);
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override {
    std::vector<ReadRequest> passed;
    std::vector<const ReadRequest*> cast;
    for (const ReadRequest& request : requests) {
      if (leaves_[request.leaf].base == kNoBase) {
        CopyScalar(request);
      } else if (CanPass(request)) {
        passed.push_back(Passed(request));
      } else {
        cast.push_back(&request);
      }
    }
    HF_ASSIGN_OR_RETURN(Stats stats, base_->ReadInto(passed, run));
    for (const ReadRequest* request : cast) {
      HF_RETURN_IF_ERROR(ReadAndCast(*request, run, stats));
    }
    return stats;
  }

  Result<std::string> DoReadText(size_t leaf) const override {
    const SeenLeaf& seen = leaves_[leaf];
    if (seen.base == kNoBase) return seen.text;
    if (HasText(base_->leaves()[seen.base].kind)) {
      return base_->ReadText(seen.base);
    }
    HF_ASSIGN_OR_RETURN(const Array bytes, base_->Read(seen.base));
    return std::string(bytes.view().data, bytes.byte_count());
  }

 private:
  Status Contradiction(const std::string& why) const {
    return FailedPreconditionError(
        info_.path +
        ": the tree that holdfast keeps there contradicts the "
        "tensors: " +
        why +
        "; the tensors can be read without it (--no-sidecar, "
        "OpenOptions::use_sidecar)");
  }

  Status ApplyWhole(const TreeSidecar& sidecar) {
    std::unordered_set<size_t> used;
    for (const SidecarLeaf& leaf : sidecar.leaves) {
      HF_RETURN_IF_ERROR(AddSeen(leaf));
      const size_t base = leaves_.back().base;
      if (base != kNoBase && !used.insert(base).second) {
        return Contradiction("two leaves are tensor " + leaf.stored);
      }
    }
    for (size_t i = 0; i < base_->leaves().size(); ++i) {
      if (used.contains(i) || IsMadeOfSmallValues(i)) continue;
      return Contradiction("tensor " + base_->leaves()[i].name +
                           " is not a leaf of it");
    }
    return Status();
  }

  // Returns whether the leaf is common.pt, in which a Megatron target writes
  // small values for Megatron's own readers. The sidecar has these values too.
  bool IsMadeOfSmallValues(size_t i) const {
    const LeafInfo& leaf = base_->leaves()[i];
    return info_.format == "megatron-zarr" && leaf.kind == ValueKind::kObject &&
           leaf.name == "common_state";
  }

  Status ApplyPart(const TreeSidecar& sidecar) {
    std::unordered_map<std::string_view, const SidecarLeaf*> differing;
    for (const SidecarLeaf& leaf : sidecar.leaves) {
      if (leaf.stored.empty()) continue;
      if (!numbers_.contains(leaf.stored)) return Missing(leaf);
      if (!differing.emplace(leaf.stored, &leaf).second) {
        return Contradiction("two leaves are tensor " + leaf.stored);
      }
    }
    for (size_t i = 0; i < base_->leaves().size(); ++i) {
      const LeafInfo& base = base_->leaves()[i];
      const auto differs = differing.find(base.name);
      if (differs != differing.end()) {
        HF_RETURN_IF_ERROR(AddSeen(*differs->second));
      } else {
        infos_.push_back(base);
        leaves_.push_back({i, false, ""});
      }
    }
    // Leaves without a tensor in the format.
    for (const SidecarLeaf& leaf : sidecar.leaves) {
      if (leaf.stored.empty()) HF_RETURN_IF_ERROR(AddSeen(leaf));
    }
    return Status();
  }

  Status Missing(const SidecarLeaf& leaf) const {
    return Contradiction("tensor \"" + leaf.stored + "\" is not there");
  }

  Status AddSeen(const SidecarLeaf& leaf) {
    SeenLeaf seen;
    LeafInfo info;
    if (!leaf.stored.empty()) {
      const auto number = numbers_.find(leaf.stored);
      if (number == numbers_.end()) return Missing(leaf);
      seen.base = number->second;
      const LeafInfo& base = base_->leaves()[seen.base];
      HF_RETURN_IF_ERROR(CheckFits(leaf, base));
      info = base;
      if (leaf.dtype != base.dtype || leaf.shape != base.shape) {
        info.fingerprint.clear();
      }
      seen.adds_axis =
          HasElements(leaf.kind) && base.shape.size() > leaf.shape.size();
      if (seen.adds_axis && !info.chunk_shape.empty()) {
        info.chunk_shape.pop_back();
      }
    } else {
      seen.text = leaf.text;
      info.decoded_bytes = info.stored_bytes = leaf.text.size();
    }
    Describe(leaf, info);
    infos_.push_back(std::move(info));
    leaves_.push_back(std::move(seen));
    return Status();
  }

  static void Describe(const SidecarLeaf& leaf, LeafInfo& info) {
    info.key = leaf.key;
    info.key_kinds = leaf.key_kinds;
    info.key_kinds.resize(leaf.key.size());
    info.name.clear();
    for (const std::string& key : leaf.key) {
      if (&key != &leaf.key.front()) info.name += ".";
      info.name += key;
    }
    info.kind = leaf.kind;
    info.value_type = leaf.value_type;
    info.prng_impl = leaf.prng_impl;
    info.sharding_json = leaf.sharding_json;
    info.write_shape = leaf.write_shape;
    info.dtype = leaf.dtype;
    info.shape = leaf.shape;
    if (leaf.kind != ValueKind::kArray) info.chunk_shape.clear();
  }

  Status CheckFits(const SidecarLeaf& leaf, const LeafInfo& base) const {
    if (!base.problem.ok()) return Status();  // reported when it is read
    if (HasText(leaf.kind) && HasText(base.kind)) return Status();
    const bool is_numeric = HasElements(base.kind) && base.dtype.has_value();
    if (HasText(leaf.kind)) {
      if (is_numeric && base.shape.size() == 1 && *base.dtype == DType::kUint8)
        return Status();
      return Contradiction("tensor " + leaf.stored +
                           " is not a uint8 array of one axis");
    }
    if (!HasElements(leaf.kind) || !is_numeric) {
      return Contradiction("tensor " + leaf.stored + " is a " +
                           std::string(ValueKindName(leaf.kind)));
    }
    const size_t want_bytes = DTypeBytes(*leaf.dtype);
    const size_t got_bytes = DTypeBytes(*base.dtype);
    Shape of_parts = leaf.shape;
    of_parts.push_back(2);
    const bool fits = (base.shape == leaf.shape && got_bytes == want_bytes) ||
                      (base.shape == of_parts && 2 * got_bytes == want_bytes);
    if (fits) return Status();
    return Contradiction(
        "tensor " + leaf.stored + " is " + std::string(DTypeName(*base.dtype)) +
        ShapeToString(base.shape) + ", want the bytes of " +
        std::string(DTypeName(*leaf.dtype)) + ShapeToString(leaf.shape));
  }

  void CopyScalar(const ReadRequest& request) const {
    const ArrayView& target = request.target;
    ConvertStrided(
        {*infos_[request.leaf].dtype, leaves_[request.leaf].text.data(),
         target.shape, Shape(target.shape.size(), 0)},
        target);
  }

  DType BaseDType(const ReadRequest& request) const {
    return *base_->leaves()[leaves_[request.leaf].base].dtype;
  }

  // Returns whether the base can return the elements in the requested form.
  bool CanPass(const ReadRequest& request) const {
    const DType dtype = *infos_[request.leaf].dtype;
    return request.target.dtype == dtype ||
           (dtype == BaseDType(request) && !leaves_[request.leaf].adds_axis);
  }

  ReadRequest Passed(const ReadRequest& request) const {
    const SeenLeaf& seen = leaves_[request.leaf];
    ReadRequest passed = request;
    passed.leaf = seen.base;
    if (request.target.dtype == *infos_[request.leaf].dtype) {
      passed.target.dtype = BaseDType(request);
    }
    if (seen.adds_axis) {
      passed.origin.push_back(0);
      passed.target.shape.push_back(2);
      passed.target.strides.push_back(DTypeBytes(passed.target.dtype));
    }
    return passed;
  }

  Status ReadAndCast(const ReadRequest& request, const RunOptions& run,
                     Stats& stats) const {
    const DType dtype = *infos_[request.leaf].dtype;
    const Shape& shape = request.target.shape;
    for (const Box& part :
         RowPieces(BoxOf(shape), DTypeBytes(dtype), kCastBytesMax)) {
      HF_ASSIGN_OR_RETURN(Array piece, Array::Allocate(dtype, part.shape));
      const Shape origin = Absolute(part, request.origin).origin;
      HF_ASSIGN_OR_RETURN(
          const Stats more,
          base_->ReadInto(
              {Passed({request.leaf, origin, piece.mutable_view()})}, run));
      ConvertStrided(piece.view(), Subview(request.target, part));
      stats.Add(more);
    }
    return Status();
  }

  const std::unique_ptr<Checkpoint> base_;
  std::vector<SeenLeaf> leaves_;                     // as infos_
  std::unordered_map<std::string, size_t> numbers_;  // of the base, by name
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> WithSidecar(
    std::unique_ptr<Checkpoint> base, const TreeSidecar& sidecar) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    auto seen = std::make_unique<SidecarCheckpoint>(std::move(base));
    HF_RETURN_IF_ERROR(seen->Apply(sidecar));
    return std::unique_ptr<Checkpoint>(std::move(seen));
  });
}

Result<std::unique_ptr<Checkpoint>> WithSidecarText(
    std::unique_ptr<Checkpoint> base, std::string_view text,
    std::string_view where) {
  const Result<TreeSidecar> sidecar = ParseSidecar(text);
  if (!sidecar.ok()) return sidecar.status().WithContext(where);
  return WithSidecar(std::move(base), *sidecar);
}

}  // namespace holdfast
