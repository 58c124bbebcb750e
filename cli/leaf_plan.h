// Computes what each process would hold, write and read of a checkpoint's
// leaves under given shardings, for the verb plan.
//
// Thread-safety: const methods may run concurrently.
// Ownership: borrows the leaves.
// Units: bytes of elements, not compressed.
// Errors: InvalidArgument for what does not fit; a leaf's own error is in its
// plan.
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
  Status problem;  // why the leaf does not fit; then nothing else is set
  // False if it is not an array on devices: then process 0 writes it, and all
  // processes need it.
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
  // The plan of leaves()[i].
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
  // For each leaf its planner, absent if the leaf is not spread; or why it has
  // no planner.
  std::vector<Result<std::optional<size_t>>> planner_of_leaf_;
};

// The sharding of the array on this mesh: from the last rule that matches; else
// as the array is stored, if the mesh has its axes; else a copy on each device.
// Absent if it is not an array on devices.
std::optional<Sharding> ShardingOnMesh(const LeafInfo& leaf, const Mesh& mesh,
                                       const std::vector<SpecRule>& rules);

// True if a leaf has elements, and so can be planned.
bool IsPlannable(const LeafInfo& leaf);

}  // namespace holdfast::cli
