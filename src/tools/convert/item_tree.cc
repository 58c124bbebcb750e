#include "tools/convert/item_tree.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/value_type.h"
#include "holdfast/shard_plan.h"

namespace holdfast {
namespace {

class FeedReader : public ArrayReader {
 public:
  FeedReader(size_t leaf, std::shared_ptr<ChunkFeed*> feed,
             std::shared_ptr<const StoredChunks> stored)
      : leaf_(leaf), feed_(std::move(feed)), stored_(std::move(stored)) {}

  size_t leaf() const { return leaf_; }
  Status Read(const Shape& origin, const ArrayView& target) const override {
    return (*feed_)->Read(leaf_, origin, target);
  }
  const StoredChunks* stored() const override { return stored_.get(); }

 private:
  size_t leaf_;
  std::shared_ptr<ChunkFeed*> feed_;
  std::shared_ptr<const StoredChunks> stored_;
};

Tree ScalarTree(DType dtype, std::string_view element) {
  Scalar scalar;
  scalar.dtype = dtype;
  std::memcpy(scalar.bytes.data(), element.data(),
              std::min(element.size(), scalar.bytes.size()));
  return Tree(scalar);
}

class TreeMaker {
 public:
  TreeMaker(const Checkpoint& checkpoint, const ItemTreeOptions& options)
      : checkpoint_(checkpoint), options_(options) {}

  Result<Tree> LeafTree(size_t number, const StoredLeaf& stored) {
    HF_RETURN_IF_ERROR(stored.problem);
    if (stored.info.kind == ValueKind::kBytes) {
      return UnimplementedError(
          "leaf " + checkpoint_.leaves()[number].name +
          " holds bytes, which only old formats can; leave it out");
    }
    if (stored.layout == nullptr) return stored.value;
    if (stored.info.kind == ValueKind::kScalar) {
      HF_ASSIGN_OR_RETURN(const Array array, checkpoint_.Read(number));
      return ScalarTree(array.dtype(), {array.view().data, array.byte_count()});
    }
    return ArrayTree(number, stored.layout->format.metadata.dtype,
                     stored.layout->format.metadata.shape);
  }

  // Returns nullopt if only the sidecar holds the leaf.
  Result<std::optional<Tree>> MappedTree(const MappedLeaf& mapped,
                                         std::vector<SidecarLeaf>& sidecar) {
    const TargetLeaf& leaf = *mapped.leaf;
    const bool is_text = leaf.kind == ValueKind::kBytes ||
                         leaf.kind == ValueKind::kJson ||
                         leaf.kind == ValueKind::kObject;
    // Orbax stores no arrays without elements.
    const bool is_void = leaf.kind == ValueKind::kArray
                             ? ElementCount(leaf.shape) == 0
                             : is_text && leaf.text.empty();
    if (is_void || is_text) sidecar.push_back(SidecarOf(mapped, is_void));
    if (is_void) return std::optional<Tree>();
    if (leaf.kind == ValueKind::kArray) {
      HF_ASSIGN_OR_RETURN(Tree tree,
                          ArrayTree(leaf.source, leaf.dtype, leaf.shape));
      return std::optional<Tree>(std::move(tree));
    }
    if (is_text) {
      return std::optional<Tree>(Tree(Array::FromBytes(
          DType::kUint8, {static_cast<int64_t>(leaf.text.size())},
          leaf.text.data())));
    }
    if (leaf.kind == ValueKind::kScalar) {
      return std::optional<Tree>(ScalarTree(leaf.dtype, leaf.text));
    }
    if (leaf.kind == ValueKind::kString) {
      return std::optional<Tree>(Tree(leaf.text));
    }
    return std::optional<Tree>(EmptyValue(leaf.kind));
  }

  const std::shared_ptr<ChunkFeed*>& feed() const { return feed_; }

 private:
  static SidecarLeaf SidecarOf(const MappedLeaf& mapped, bool is_void) {
    SidecarLeaf leaf;
    for (const KeyElement& element : mapped.path) {
      leaf.key.push_back(element.key);
      leaf.key_kinds.push_back(element.kind);
    }
    leaf.kind = mapped.leaf->kind;
    if (!is_void) leaf.stored = ParamName(mapped.path);
    if (leaf.kind != ValueKind::kArray) return leaf;
    leaf.dtype = mapped.leaf->dtype;
    leaf.shape = mapped.leaf->shape;
    leaf.value_type = mapped.leaf->value_type;
    return leaf;
  }

  Result<Tree> ArrayTree(size_t number, DType dtype, const Shape& shape) {
    HF_ASSIGN_OR_RETURN(auto traits,
                        TraitsOf(checkpoint_.leaves()[number], dtype, shape));
    std::shared_ptr<const StoredChunks> stored;
    if (options_.referred != nullptr) {
      HF_ASSIGN_OR_RETURN(stored, options_.referred->chunks(number, dtype));
    }
    return Tree::DeferredArray(
        dtype, shape,
        std::make_shared<FeedReader>(number, feed_, std::move(stored)),
        traits != nullptr ? ArrayKind::kJax : ArrayKind::kNumpy, traits);
  }

  // Returns null for a numpy array.
  Result<std::shared_ptr<const ArrayTraits>> TraitsOf(const LeafInfo& info,
                                                      DType dtype,
                                                      const Shape& shape) {
    if (options_.sharding) {
      HF_ASSIGN_OR_RETURN(const std::optional<Sharding> sharding,
                          options_.sharding(info));
      if (sharding) {
        Result<ArrayTraits> traits = Resharded(*sharding, dtype, shape);
        if (!traits.ok()) {
          return traits.status().WithContext("leaf " + info.name);
        }
        traits->prng_impl = info.prng_impl;
        return Shared(std::move(traits).value());
      }
    }
    if (info.value_type != kValueTypeJaxArray) {
      return std::shared_ptr<const ArrayTraits>();
    }
    ArrayTraits traits{info.sharding_json, info.prng_impl, {}};
    if (info.write_shape && *info.write_shape != shape) {
      traits.write_shape = *info.write_shape;
    }
    return Shared(std::move(traits));
  }

  Result<ArrayTraits> Resharded(const Sharding& sharding, DType dtype,
                                const Shape& shape) {
    std::string json = ShardingToJson(sharding);
    auto planner = planners_.find(json);
    if (planner == planners_.end()) {
      HF_ASSIGN_OR_RETURN(ShardPlanner made, ShardPlanner::OfAll(sharding));
      planner = planners_.emplace(json, std::move(made)).first;
    }
    HF_ASSIGN_OR_RETURN(
        const WriteLayout layout,
        planner->second.Layout(
            shape, DTypeBytes(dtype),
            {.use_replica_parallel = options_.use_replica_parallel}));
    ArrayTraits traits{std::move(json), "", {}};
    if (layout.write_shape != shape) traits.write_shape = layout.write_shape;
    return traits;
  }

  // Returns one shared object for consecutive leaves with equal traits.
  std::shared_ptr<const ArrayTraits> Shared(ArrayTraits traits) {
    if (last_ == nullptr || !(*last_ == traits)) {
      last_ = std::make_shared<const ArrayTraits>(std::move(traits));
    }
    return last_;
  }

  const Checkpoint& checkpoint_;
  const ItemTreeOptions& options_;
  const std::shared_ptr<ChunkFeed*> feed_ =
      std::make_shared<ChunkFeed*>(nullptr);
  std::map<std::string, ShardPlanner> planners_;  // by the text of `_sharding`
  std::shared_ptr<const ArrayTraits> last_;
};

}  // namespace

Result<ItemTree> MakeItemTree(const OpenedCheckpoint& checkpoint,
                              const std::vector<size_t>& leaves,
                              const ItemTreeOptions& options) {
  TreeMaker maker(checkpoint, options);
  ItemTree made;
  made.leaf_count = leaves.size();
  std::vector<UnflattenEntry> entries;
  for (const size_t number : leaves) {
    const auto [item, stored] = checkpoint.StoredLeafAt(number);
    HF_ASSIGN_OR_RETURN(Tree leaf, maker.LeafTree(number, *stored));
    entries.push_back({stored->path, std::move(leaf)});
  }
  HF_ASSIGN_OR_RETURN(made.tree, Unflatten(std::move(entries)));
  made.feed = maker.feed();
  return made;
}

Result<ItemTree> MakeMappedTree(const Checkpoint& checkpoint,
                                const std::vector<MappedLeaf>& leaves,
                                const ItemTreeOptions& options) {
  TreeMaker maker(checkpoint, options);
  ItemTree made;
  made.leaf_count = leaves.size();
  std::vector<UnflattenEntry> entries;
  for (const MappedLeaf& leaf : leaves) {
    HF_ASSIGN_OR_RETURN(std::optional<Tree> tree,
                        maker.MappedTree(leaf, made.sidecar));
    if (tree) entries.push_back({leaf.path, *std::move(tree)});
  }
  if (entries.empty()) {
    return InvalidArgumentError(
        "convert: no leaf is left that Orbax can store (arrays without "
        "elements it cannot)");
  }
  HF_ASSIGN_OR_RETURN(made.tree, Unflatten(std::move(entries)));
  made.feed = maker.feed();
  return made;
}

std::vector<FeedUnit> UnitsOf(const SavePlan& plan, uint64_t bytes_max) {
  std::vector<FeedUnit> units;
  for (const PlannedArray& array : plan.arrays) {
    if (!array.source.is_deferred()) continue;
    const auto* reader =
        static_cast<const FeedReader*>(plan.leaves[array.leaf].leaf->reader());
    const ChunkGrid& grid = array.layout->array->grid;
    const uint64_t first = array.first_chunk_value();
    for (uint64_t i = 0; i < array.chunk_count(); ++i) {
      const Box box = grid.ChunkBox(grid.ChunkIndex(array.ChunkOf(first + i)));
      AppendPieces({reader->leaf(), array.source.dtype(), box}, bytes_max,
                   units);
    }
  }
  return units;
}

}  // namespace holdfast
