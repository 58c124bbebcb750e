// Virtual ranks: does the work of many processes, one after the other, in this
// process. Uses the engine's own planning, writing and merging on any Store,
// but no sockets.
//
// Thread-safety: one thread per store. Ownership: borrows arrays for the
// lifetime of what is made from them. Errors: those of the engine.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/format/digest_file.h"
#include "engine/save/save_plan.h"
#include "holdfast/options.h"
#include "holdfast/shard_plan.h"
#include "holdfast/tree.h"
#include "stores/storage/store.h"

namespace holdfast::testing {

// The save's id that the parts of a virtual save contain.
inline constexpr const char* kVirtualSaveId = "virtual";

// Shared by the ranks of one save.
struct VirtualSave {
  SaveOptions options;  // sources of time and randomness are filled in
  int64_t process_count = 1;
};

// One rank's part in all arrays of one sharding.
class SpreadLeaves {
 public:
  static Result<SpreadLeaves> OfRank(const Sharding& sharding,
                                     const DeviceProcesses& processes,
                                     int64_t rank,
                                     const ReplicaOptions& options);

  // Returns a leaf for the array `whole`, with the parts that the devices of
  // the rank write.
  Result<Tree> Leaf(const Array& whole);

 private:
  SpreadLeaves(ShardPlanner planner, const ReplicaOptions& options)
      : planner_(std::move(planner)), options_(options) {}

  ShardPlanner planner_;
  ReplicaOptions options_;
  std::string sharding_json_;
  // By write shape; leaves share the traits because their texts are long.
  std::map<Shape, std::shared_ptr<const ArrayTraits>> traits_;
};

PlanPart PartOfRank(const VirtualSave& save, int64_t rank);

// Plans and writes the part of one rank into the root of `store`.
Status SaveRank(const VirtualSave& save, int64_t rank, const Tree& tree,
                Store& store);

// Does the work of rank 0 after all ranks have written: assembles one item from
// the parts. Returns the contents of the item's list of checksums.
Result<DigestFile> Finish(const VirtualSave& save, Store& store);

}  // namespace holdfast::testing
