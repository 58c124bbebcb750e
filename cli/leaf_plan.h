// Computes for the verb `plan` what each process would hold, write and read of
// a checkpoint's leaves under given shardings.
//
// Thread-safety: const methods may run concurrently.
// Ownership: borrows the leaves.
// Units: bytes of elements, not compressed.
// Errors: InvalidArgument for a request that does not fit; a leaf's own error
// is in its plan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cli/layout_text.h"
#include "holdfast/checkpoint.h"
#include "holdfast/shard_plan.h"

namespace holdfast::cli {

struct LayoutRequest {
  std::optional<Mesh> mesh;     // absent: each leaf's own mesh
  std::vector<SpecRule> rules;  // the last match counts
  int64_t process_count = 0;    // 0: one per device
  std::optional<int64_t> rank;  // only the part of this process
};

// Sums for one process, over all leaves or for one leaf.
struct RankLoad {
  uint64_t write_bytes = 0;
  uint64_t need_bytes = 0;
  uint64_t read_bytes = 0;  // of the chunks that hold the needed elements
  uint64_t chunk_count = 0;

  void Add(const RankLoad& other);
};

struct PlannedDevice {
  int64_t rank = 0;
  DeviceShare share;
};

struct PlannedLeaf {
  Status problem;  // why the leaf does not fit; no other field is set
  // True for an array on devices. Any other leaf is written by process 0 and
  // needed by all processes.
  bool is_spread = false;
  PartitionSpec spec;
  WriteLayout layout;
  std::vector<PlannedDevice> devices;  // of the requested processes
  std::map<int64_t, RankLoad> loads;   // by rank
};

class LeafPlanner {
 public:
  // REQUIRES: the leaves are IsPlannable and outlive the planner.
  static Result<LeafPlanner> Make(std::vector<const LeafInfo*> leaves,
                                  const LayoutRequest& request);

  int64_t process_count() const { return process_count_; }
  int64_t device_count() const { return device_count_; }
  const std::vector<const LeafInfo*>& leaves() const { return leaves_; }
  // Returns the plan of leaves()[i].
  PlannedLeaf Plan(size_t i) const;

 private:
  LeafPlanner() = default;
  std::vector<Sharding> ChooseLayouts(const LayoutRequest& request);
  Status ChooseProcesses(std::vector<Sharding> shardings,
                         const LayoutRequest& request);
  void PlanUnspread(const LeafInfo& leaf, PlannedLeaf* plan) const;
  Status PlanSpread(const LeafInfo& leaf, const ShardPlanner& planner,
                    PlannedLeaf* plan) const;
  bool IsAskedFor(int64_t rank) const { return !rank_ || *rank_ == rank; }

  std::vector<const LeafInfo*> leaves_;
  std::optional<int64_t> rank_;
  DeviceProcesses processes_;
  int64_t process_count_ = 1;
  int64_t device_count_ = 0;
  std::vector<PartitionSpec> specs_;  // one per planner
  std::vector<Result<ShardPlanner>> planners_;
  // The index of each leaf's planner, absent if the leaf is not spread, or the
  // reason why it has no planner.
  std::vector<Result<std::optional<size_t>>> planner_of_leaf_;
};

// Returns the sharding of the array on this mesh: the last matching rule's;
// else the stored one, if the mesh has its axes; else a copy on each device.
// Returns nullopt for a leaf that is not an array on devices.
std::optional<Sharding> ShardingOnMesh(const LeafInfo& leaf, const Mesh& mesh,
                                       const std::vector<SpecRule>& rules);

// Returns true if the leaf has elements, and so can be planned.
bool IsPlannable(const LeafInfo& leaf);

}  // namespace holdfast::cli
