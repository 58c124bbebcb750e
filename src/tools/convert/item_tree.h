// The tree of one item of an opened checkpoint, with its arrays left where they
// are: a save asks their readers for elements when it wants them.
//
// Thread-safety: one thread an ItemTree; its readers from any.
// Ownership: an ItemTree's feed is set by whoever made it, and outlives the
// save; the checkpoint outlives both.
// Errors: the problem of a leaf that cannot be read; those of
// ConvertOptions::sharding.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/save/save_plan.h"
#include "foreign/extents/target.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/tree/key_path.h"
#include "holdfast/sharding.h"
#include "stores/place/place.h"
#include "tools/convert/chunk_feed.h"

namespace holdfast {

// Arrays that the new checkpoint refers to where they lie.
struct ReferredArrays {
  // The chunks of a leaf of the source, to be stored with this dtype. Null: its
  // elements are copied.
  std::function<Result<std::shared_ptr<const StoredChunks>>(size_t leaf,
                                                            DType dtype)>
      chunks;
  // Called when `chunks` has been asked for all arrays, and nothing is written.
  std::function<Status()> may_begin;
  // Puts the files that chunks are in, or links to them, into the directory of
  // the item `name`. Called before the item is written.
  std::function<Status(const std::string& name, const Place& directory)>
      place_files;
  // As PendingSaveOptions::may_commit: whether what is referred to is still
  // what it was.
  std::function<Status()> may_commit;
};

struct ItemTreeOptions {
  std::function<Result<std::optional<Sharding>>(const LeafInfo&)> sharding;
  bool use_replica_parallel = true;
  const ReferredArrays* referred = nullptr;  // borrowed; null: none
};

struct ItemTree {
  Tree tree;
  size_t leaf_count = 0;
  // Leaves that Orbax has no kind for, and that the tree holds as bytes, or not
  // at all.
  std::vector<SidecarLeaf> sidecar;
  // The place where the readers look; empty until there is a feed.
  std::shared_ptr<ChunkFeed*> feed;
};

// The tree of `leaves`: numbers in checkpoint.leaves(), all of one item.
Result<ItemTree> MakeItemTree(const OpenedCheckpoint& checkpoint,
                              const std::vector<size_t>& leaves,
                              const ItemTreeOptions& options);

// A leaf of any checkpoint, and its place in the new item. Text is filled in.
struct MappedLeaf {
  const TargetLeaf* leaf = nullptr;
  KeyPath path;
};
Result<ItemTree> MakeMappedTree(const Checkpoint& checkpoint,
                                const std::vector<MappedLeaf>& leaves,
                                const ItemTreeOptions& options);

// The boxes that a save by `plan` of such a tree asks its readers for, in its
// order, in pieces of at most `bytes_max` bytes.
std::vector<FeedUnit> UnitsOf(const SavePlan& plan, uint64_t bytes_max);

}  // namespace holdfast
