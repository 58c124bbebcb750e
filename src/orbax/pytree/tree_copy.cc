#include "orbax/pytree/tree_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"
#include "ground/tree/rebuild.h"

namespace holdfast {
namespace {

// One thread copies this much of a contiguous array at a time. It is large
// enough that distributing it costs nothing, and small enough that one large
// array keeps all threads busy.
constexpr size_t kPieceBytes = size_t{4} << 20;

struct PlannedCopy {
  ConstArrayView source;
  ArrayView target;
  const ArrayReader* reader = nullptr;  // if not null, reads all of `target`
  bool is_first = false;
  // The part of a contiguous array to copy; byte_count 0 means all of it.
  size_t offset = 0;
  size_t byte_count = 0;

  Status Run() const {
    if (reader != nullptr) {
      return reader->Read(Shape(target.shape.size(), 0), target);
    }
    if (byte_count == 0) {
      CopyStrided(source, target);
    } else {
      std::memcpy(target.data + offset, source.data + offset, byte_count);
    }
    return Status();
  }
};

// Returns whether the program may change the leaf's elements after the save has
// returned.
bool MayChange(const Tree& leaf, const IsImmutableFn& is_immutable) {
  if (!leaf.is_leaf() || leaf.leaf_kind() != LeafKind::kArray) return false;
  if (leaf.reader() != nullptr && !leaf.reader()->is_live()) return false;
  return !is_immutable || !is_immutable(leaf);
}

// Allocates the memory of each copy, and makes the tree that holds it.
class SnapshotPlanner {
 public:
  SnapshotPlanner(const IsPrioritizedKeyFn& is_first,
                  const IsImmutableFn& is_immutable)
      : is_first_(is_first), is_immutable_(is_immutable) {}

  Tree CopyOf(const KeyPath& path, const Tree& leaf) {
    if (!MayChange(leaf, is_immutable_)) return leaf;
    const bool is_first = is_first_ && is_first_(PathOf(path));
    if (leaf.is_sharded()) return CopyOfShards(leaf, is_first);
    if (leaf.reader() != nullptr) {
      return Whole(leaf, PlanRead(leaf.array(), *leaf.reader(), is_first));
    }
    return Whole(leaf, Plan(leaf.array(), is_first));
  }

  const Status& status() const { return status_; }
  std::vector<PlannedCopy> TakeCopies() {
    // The sort is stable: within each class, copies stay in the order of the
    // memory that they read.
    std::stable_sort(copies_.begin(), copies_.end(),
                     [](const PlannedCopy& a, const PlannedCopy& b) {
                       return a.is_first > b.is_first;
                     });
    return std::move(copies_);
  }

 private:
  Tree CopyOfShards(const Tree& leaf, bool is_first) {
    std::vector<ArrayShard> shards;
    for (const ArrayShard& shard : leaf.shards()) {
      shards.push_back(
          {shard.origin, shard.reader == nullptr
                             ? Plan(shard.array, is_first)
                             : PlanRead(shard.array, *shard.reader, is_first)});
    }
    return Tree::ShardedArray(leaf.array_dtype(), leaf.array_shape(),
                              std::move(shards), TraitsOf(leaf),
                              leaf.array_kind());
  }

  Array Plan(const Array& source, bool is_first) {
    if (!status_.ok()) return source;
    Result<Array> copy = Array::Allocate(source.dtype(), source.shape());
    if (!copy.ok()) {
      status_ = copy.status();
      return source;
    }
    AddCopies(source.view(), copy->mutable_view(), is_first);
    return std::move(copy).value();
  }

  // Like Plan, for the elements that `reader` returns.
  Array PlanRead(const Array& outline, const ArrayReader& reader,
                 bool is_first) {
    if (!status_.ok()) return outline;
    Result<Array> copy = Array::Allocate(outline.dtype(), outline.shape());
    if (!copy.ok()) {
      status_ = copy.status();
      return outline;
    }
    copies_.push_back({.target = copy->mutable_view(),
                       .reader = &reader,
                       .is_first = is_first});
    return std::move(copy).value();
  }

  // Returns a leaf like `leaf` with this array.
  Tree Whole(const Tree& leaf, Array array) {
    if (leaf.array_kind() == ArrayKind::kNumpy) return Tree(std::move(array));
    return Tree::JaxArray(std::move(array), TraitsOf(leaf));
  }

  void AddCopies(const ConstArrayView& source, const ArrayView& target,
                 bool is_first) {
    if (!IsContiguous(source)) {
      copies_.push_back(
          {.source = source, .target = target, .is_first = is_first});
      return;
    }
    const size_t byte_count =
        ElementCount(source.shape) * DTypeBytes(source.dtype);
    for (size_t offset = 0; offset < byte_count; offset += kPieceBytes) {
      copies_.push_back(
          {.source = source,
           .target = target,
           .is_first = is_first,
           .offset = offset,
           .byte_count = std::min(kPieceBytes, byte_count - offset)});
    }
  }

  // Returns the leaf's traits. Leaves with equal traits share one copy.
  std::shared_ptr<const ArrayTraits> TraitsOf(const Tree& leaf) {
    if (traits_ == nullptr || !(*traits_ == leaf.array_traits())) {
      traits_ = std::make_shared<const ArrayTraits>(leaf.array_traits());
    }
    return traits_;
  }

  const IsPrioritizedKeyFn& is_first_;
  const IsImmutableFn& is_immutable_;
  std::vector<PlannedCopy> copies_;
  std::shared_ptr<const ArrayTraits> traits_;
  Status status_;
};

uint64_t LeafBytes(const Tree& leaf, const IsImmutableFn& is_immutable) {
  if (!MayChange(leaf, is_immutable)) return 0;
  if (!leaf.is_sharded()) return leaf.array().byte_count();
  uint64_t byte_count = 0;
  for (const ArrayShard& shard : leaf.shards()) {
    byte_count += shard.array.byte_count();
  }
  return byte_count;
}

}  // namespace

uint64_t ArrayBytes(const Tree& tree, const IsImmutableFn& is_immutable) {
  if (tree.size() == 0) return LeafBytes(tree, is_immutable);
  uint64_t byte_count = 0;
  for (const Tree& child : tree.children()) {
    byte_count += ArrayBytes(child, is_immutable);
  }
  return byte_count;
}

Result<Tree> Snapshot(const Tree& tree, const IsPrioritizedKeyFn& is_first,
                      const IsImmutableFn& is_immutable) {
  SnapshotPlanner planner(is_first, is_immutable);
  Tree copy = MapLeaves(tree, [&](const KeyPath& path, const Tree& leaf) {
    return planner.CopyOf(path, leaf);
  });
  HF_RETURN_IF_ERROR(planner.status());
  const std::vector<PlannedCopy> copies = planner.TakeCopies();
  Executor executor;
  HF_RETURN_IF_ERROR(executor.ParallelFor(
      copies.size(), [&](size_t i, int) { return copies[i].Run(); }));
  return copy;
}

}  // namespace holdfast
