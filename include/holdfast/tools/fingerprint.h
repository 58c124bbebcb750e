// Fingerprints: 128 bits that identify the elements of a tensor, whatever its
// memory layout, shards, chunks and place on disk. Also compares replicas by
// their fingerprints, for example before a save.
//
//   std::string f = *holdfast::FingerprintOf(weights.view());
//   auto report = holdfast::CompareReplicas(group.get(), my_tree);
//   if (report.ok()) return report->Check();  // "tensor w: rank 3 differs ..."
//
// A fingerprint is a string of 32 hex digits. Equal fingerprints mean equal
// dtype, shape and bits, except with a probability of about 2^-62. They detect
// hardware faults; they do not protect against an attacker who makes two
// tensors look alike. A save with SaveOptions::fingerprints stores them,
// LeafInfo::fingerprint returns them (OpenOptions::fingerprints), and loads
// then check them.
//
// Thread-safety: pure functions of the viewed memory; one call at a time per
// group. Ownership: views are borrowed for the call.
// Units: elements; ranks count from 0.
// Errors: Cancelled; InvalidArgument for a box outside its tensor; those of the
// group.
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

// Returns the fingerprint of a complete tensor.
Result<std::string> FingerprintOf(const ConstArrayView& tensor,
                                  const RunOptions& run = {});

// Returns the fingerprint of each array and scalar in a tree, by name: the
// value that LeafInfo::fingerprint has after the tree was saved.
// InvalidArgument for deferred arrays, and for sharded arrays if this process
// does not have all shards.
Result<std::map<std::string, std::string>> FingerprintsOf(
    const Tree& tree, const RunOptions& run = {});

// This process's copy of a box of a tensor.
struct Replica {
  std::string tensor;
  Shape tensor_shape;
  Shape origin;         // the box's; empty: zeros
  ConstArrayView view;  // the box's elements
};

struct ReplicaHolder {
  int64_t rank = 0;
  // The index of this replica among the rank's own replicas of the box, in the
  // order in which the rank passed them.
  int64_t copy = 0;

  bool operator==(const ReplicaHolder&) const = default;
};

// Replicas of the same box that are not equal.
struct Divergence {
  std::string tensor;
  Shape origin;
  Shape shape;            // the box's
  bool is_whole = false;  // the box is the complete tensor
  // Groups of equal replicas: the largest group first, then by holder.
  std::vector<std::vector<ReplicaHolder>> groups;

  // True if the first group is larger than every other; the other groups have
  // then diverged. Otherwise it is not known which replicas are right.
  bool has_majority() const { return groups[0].size() > groups[1].size(); }
};
// Returns text such as "tensor w[0:4, 0:8]: rank 3 differs from ranks 0-2", or
// in a tie "tensor w: rank 0 and rank 1 differ, and none has a majority".
std::string DivergenceText(const Divergence& divergence);

struct ReplicaReport {
  std::vector<Divergence> divergences;  // by tensor, then box
  uint64_t box_count = 0;               // distinct boxes that some rank holds
  uint64_t replica_count = 0;           // held by all ranks together
  uint64_t compared_count = 0;  // of these, in boxes held more than once

  // Returns ok without divergences; otherwise DataLoss with the first of them.
  Status Check() const;
};

// Compares the replicas of all ranks: boxes with the same tensor, origin and
// shape. Every rank calls this and receives the same report. A rank sends 16
// bytes per replica, and the list of its boxes if ranks hold different boxes.
// With a null group, compares only the replicas of this process.
Result<ReplicaReport> CompareReplicas(ProcessGroup* group,
                                      const std::vector<Replica>& replicas,
                                      const RunOptions& run = {});
// The same for the replicas that a tree holds in memory: complete arrays,
// scalars, and each shard. Strings and deferred arrays are left out.
Result<ReplicaReport> CompareReplicas(ProcessGroup* group, const Tree& tree,
                                      const RunOptions& run = {});

}  // namespace holdfast
