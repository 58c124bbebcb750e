// ReadPatches: returns the elements that a delta changes, array by array.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "engine/restore/leaf_request.h"
#include "foreign/chain/delta_checkpoint.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
#include "holdfast/delta.h"
#include "tools/deltas/array_patches.h"

namespace holdfast {
namespace {

// Joins the patches of an array's chunks. Chunks are runs of complete rows, so
// each chunk is one range of the array in C order.
class PatchJoiner {
 public:
  PatchJoiner(const LeafInfo& leaf) : leaf_(leaf) {}

  void Add(const ChunkPatch& patch) {
    int64_t first = 0;
    for (size_t axis = 0; axis < leaf_.shape.size(); ++axis) {
      first = first * leaf_.shape[axis] + patch.box.origin[axis];
    }
    for (const uint32_t place : patch.places) {
      indices_.push_back(first + place);
    }
    values_.append(patch.values.data(), patch.values.size());
  }

  ArrayPatch Finish() {
    ArrayPatch patch;
    patch.name = leaf_.name;
    patch.shape = leaf_.shape;
    patch.values = Array::FromBytes(
        *leaf_.dtype, {static_cast<int64_t>(indices_.size())}, values_.data());
    patch.indices = std::move(indices_);
    return patch;
  }
  bool is_empty() const { return indices_.empty(); }

 private:
  const LeafInfo& leaf_;
  std::vector<int64_t> indices_;
  std::string values_;
};

Result<std::string_view> ReadOld(const Checkpoint* base, size_t base_leaf,
                                 const LeafInfo& leaf, const Box& box,
                                 Buffer& scratch) {
  const uint64_t bytes =
      static_cast<uint64_t>(ElementCount(box.shape)) * DTypeBytes(*leaf.dtype);
  scratch = Buffer(bytes);
  if (base == nullptr) {
    std::memset(scratch.data(), 0, bytes);
    return scratch.view();
  }
  RunOptions run;
  run.threads = 1;
  const ArrayView view{*leaf.dtype, scratch.data(), box.shape,
                       ContiguousStrides(box.shape, DTypeBytes(*leaf.dtype))};
  HF_RETURN_IF_ERROR(
      base->ReadInto({{base_leaf, box.origin, view}}, run).status());
  return scratch.view();
}

Status ReadAll(const std::string& path,
               const std::function<Status(ArrayPatch patch)>& take,
               const RunOptions& run) {
  OpenOptions open;
  open.stored_sizes = false;
  HF_ASSIGN_OR_RETURN(const auto checkpoint, Open(path, open));
  const CheckpointInfo& info = checkpoint->info();
  if (info.bases.empty()) {
    return FailedPreconditionError("patches of " + info.path +
                                   ": it is not a delta, so it has none");
  }
  HF_ASSIGN_OR_RETURN(const auto base, Open(info.bases[0], open));
  std::unordered_map<std::string_view, size_t> of_base;
  for (size_t i = 0; i < base->leaves().size(); ++i) {
    of_base.emplace(base->leaves()[i].name, i);
  }
  Stats stats;
  for (size_t i = 0; i < checkpoint->leaves().size(); ++i) {
    const LeafInfo& leaf = checkpoint->leaves()[i];
    if (leaf.kind != ValueKind::kArray || leaf.codecs == kUnchangedCodecs ||
        ElementCount(leaf.shape) == 0) {
      continue;
    }
    const auto found = of_base.find(leaf.name);
    const bool is_new = found == of_base.end() ||
                        base->leaves()[found->second].dtype != leaf.dtype ||
                        base->leaves()[found->second].shape != leaf.shape;
    PatchJoiner joiner(leaf);
    const PatchedArray array{i, [&](const Box& box, Buffer& scratch) {
                               return ReadOld(is_new ? nullptr : base.get(),
                                              is_new ? 0 : found->second, leaf,
                                              box, scratch);
                             }};
    HF_RETURN_IF_ERROR(FindPatches(*checkpoint, {array}, run, stats,
                                   [&](const ChunkPatch& patch) {
                                     joiner.Add(patch);
                                     return Status();
                                   }));
    if (joiner.is_empty()) continue;
    HF_RETURN_IF_ERROR(take(joiner.Finish()));
  }
  return Status();
}

}  // namespace

Status ReadPatches(const std::string& path,
                   const std::function<Status(ArrayPatch patch)>& take,
                   const RunOptions& run) {
  return InCall(CallKind::kLoad, path, [&] {
    return CatchBadAlloc([&] { return ReadAll(path, take, run); });
  });
}

}  // namespace holdfast
