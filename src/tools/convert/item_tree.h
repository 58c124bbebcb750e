// Makes the tree of one item of an opened checkpoint. Its arrays stay in
// storage: a save asks their readers for elements when it needs them.
//
// Thread-safety: one thread per ItemTree; its readers may be called from any
// thread.
// Ownership: the caller that makes an ItemTree sets its feed, which outlives
// the save; the checkpoint outlives both.
// Errors: LeafInfo::problem of a leaf that cannot be read; those of
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

// Arrays that the new checkpoint refers to where they are stored.
struct ReferredArrays {
  // Returns the chunks of a leaf of the source, to be stored with this dtype,
  // or null if the leaf's elements must be copied.
  std::function<Result<std::shared_ptr<const StoredChunks>>(size_t leaf,
                                                            DType dtype)>
      chunks;
  // Called after the calls of `chunks` for all arrays, and before anything is
  // written.
  std::function<Status()> may_begin;
  // Puts the files that contain the chunks, or links to them, into the
  // directory of the item `name`. Called before the item is written.
  std::function<Status(const std::string& name, const Place& directory)>
      place_files;
  // As in PendingSaveOptions: fails if the files referred to have changed.
  std::function<Status()> may_commit;
};

struct ItemTreeOptions {
  std::function<Result<std::optional<Sharding>>(const LeafInfo&)> sharding;
  bool use_replica_parallel = true;
  const ReferredArrays* referred = nullptr;  // borrowed; null means none
};

struct ItemTree {
  Tree tree;
  size_t leaf_count = 0;
  // Leaves of kinds that Orbax does not support. The tree holds them as bytes
  // or not at all.
  std::vector<SidecarLeaf> sidecar;
  // The pointer through which the readers find the feed; empty until one
  // exists.
  std::shared_ptr<ChunkFeed*> feed;
};

// Makes the tree of `leaves`, which are indices into checkpoint.leaves(). All
// must belong to one item.
Result<ItemTree> MakeItemTree(const OpenedCheckpoint& checkpoint,
                              const std::vector<size_t>& leaves,
                              const ItemTreeOptions& options);

// A leaf of any checkpoint, and its position in the new item. The leaf's text
// must be filled in.
struct MappedLeaf {
  const TargetLeaf* leaf = nullptr;
  KeyPath path;
};
Result<ItemTree> MakeMappedTree(const Checkpoint& checkpoint,
                                const std::vector<MappedLeaf>& leaves,
                                const ItemTreeOptions& options);

// Returns the boxes that a save of such a tree by `plan` requests from the
// tree's readers, in order, cut into pieces of at most `bytes_max` bytes.
std::vector<FeedUnit> UnitsOf(const SavePlan& plan, uint64_t bytes_max);

}  // namespace holdfast
