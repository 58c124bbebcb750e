// Fingerprints: 128 bits for the elements of a tensor, whatever its memory, its
// shards, its chunks and its place on disk are. And replicas compared by them,
// before a save writes anything.
//
//   std::string f = *holdfast::FingerprintOf(weights.view());
//   auto report = holdfast::CompareReplicas(group.get(), my_tree);
//   if (report.ok()) return report->Check();  // "tensor w: rank 3 differs ..."
//
// A fingerprint is a text of 32 hex digits. Equal ones mean equal dtype, shape
// and bits, but for a chance of about 2^-62; it is made for faults of machines,
// and does not protect against somebody who makes two tensors look alike. A
// save with SaveOptions::fingerprints stores them, LeafInfo::fingerprint gives
// them (OpenOptions::fingerprints), and loads then check them.
//
// Thread-safety: pure functions of the memory behind the views; one call a
// group at a time. Ownership: views are borrowed for the call.
// Units: elements; ranks count from 0.
// Errors: Cancelled; InvalidArgument for a box outside of its tensor; those of
// the group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/process_group.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

// The fingerprint of a whole tensor.
Result<std::string> FingerprintOf(const ConstArrayView& tensor,
                                  const RunOptions& run = {});

// The fingerprints of each array and scalar of a tree, by name: what
// LeafInfo::fingerprint is once the tree has been saved. A sharded array has
// all of its shards here, and no deferred ones (InvalidArgument).
Result<std::map<std::string, std::string>> FingerprintsOf(
    const Tree& tree, const RunOptions& run = {});

// One copy of a box of a tensor, as this process has it.
struct Replica {
  std::string tensor;
  Shape tensor_shape;
  Shape origin;         // of the box; empty: zeros
  ConstArrayView view;  // the box's elements
};

struct ReplicaHolder {
  int64_t rank = 0;
  // Among the rank's own replicas of the box, in the order in which it gave
  // them.
  int64_t copy = 0;

  bool operator==(const ReplicaHolder&) const = default;
};

// Replicas of one box that are not equal.
struct Divergence {
  std::string tensor;
  Shape origin;
  Shape shape;            // of the box
  bool is_whole = false;  // the box is the tensor
  // Those that are equal, together: the largest group first, then by holder.
  std::vector<std::vector<ReplicaHolder>> groups;

  // Whether the first group is larger than any other: then the others are those
  // that have diverged. Otherwise nobody can tell which of them are right.
  bool has_majority() const { return groups[0].size() > groups[1].size(); }
};
// "tensor w[0:4, 0:8]: rank 3 differs from ranks 0-2", or of a tie "tensor
// w: rank 0 and rank 1 differ, and none has a majority".
std::string DivergenceText(const Divergence& divergence);

struct ReplicaReport {
  std::vector<Divergence> divergences;  // by tensor, then box
  uint64_t box_count = 0;               // different boxes that some rank holds
  uint64_t replica_count = 0;           // held by all ranks together
  uint64_t compared_count = 0;  // of these, of boxes held more than once

  // DataLoss with the texts of the first divergences; Ok without any.
  Status Check() const;
};

// Compares what all ranks hold: boxes of the same tensor, origin and shape.
// Every rank calls it and gets the same report; 16 bytes a replica travel (and
// the list of boxes, where ranks hold different ones). Null: only the replicas
// of this process.
Result<ReplicaReport> CompareReplicas(ProcessGroup* group,
                                      const std::vector<Replica>& replicas,
                                      const RunOptions& run = {});
// The replicas that a tree holds in memory: whole arrays, scalars, and each
// shard. Texts and deferred arrays are left out.
Result<ReplicaReport> CompareReplicas(ProcessGroup* group, const Tree& tree,
                                      const RunOptions& run = {});

}  // namespace holdfast
