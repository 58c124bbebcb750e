// Diff: finds the differences between two checkpoints of any formats.
//
//   auto a = holdfast::Open("/ckpt/7");
//   auto b = holdfast::Open("/converted/7.safetensors");
//   auto diff = holdfast::Diff(**a, **b);
//   if (diff.ok() && diff->is_same()) ...
//
// Leaves are matched by name. For each pair, kinds are compared first, then
// shapes, dtypes, and finally values. Values of different dtypes are compared
// as exact numbers. No value is rounded for the comparison: 64-bit integers are
// compared as integers, and narrow floats in float64, which represents them
// exactly.
//
// Two elements a and b:
//   equal      a == b, or both are NaN (unless DiffOptions::equal_nan is off);
//              for complex numbers, both parts. So -0.0 equals 0.0.
//   abs error  |a - b|
//   rel error  |a - b| / max(|a|, |b|); 0 for equal elements, infinity if one
//              is infinite. It is symmetric, and otherwise at most 2.
//   close      equal, or |a - b| <= atol + rtol * max(|a|, |b|) and both are
//              finite (numpy.isclose, with the larger number on the right)
// An element that is NaN on only one side has neither error and is never close;
// such elements are counted separately. Equal elements with different bits
// (-0.0, the payload of a NaN) are counted too, and are a difference only with
// DiffOptions::equal_bits.
//
// Several threads read pieces of both checkpoints at the same time; only these
// pieces are held in memory, within RunOptions::memory_bytes.
// Thread-safety: may run concurrently on the same checkpoints.
// Units: bytes, elements.
// Errors: Cancelled; InvalidArgument for invalid options, and for two leaves
// that get the same name; FailedPrecondition for missing fingerprints. A leaf
// that cannot be read is listed in the result, with the reason, and does not
// stop the comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

struct DiffOptions {
  // Threads, memory, progress (phase "compare", bytes of both sides), cancel.
  RunOptions run;
  double atol = 0;
  double rtol = 0;
  bool equal_nan = true;    // NaN equals NaN
  bool equal_bits = false;  // equal values with different bits differ
  // Equal values are then the same whatever their dtypes. Otherwise a different
  // dtype is a difference, though the values are still compared.
  bool ignore_dtype = false;
  // Compare only structure, kinds, shapes and dtypes; no tensors are read.
  bool only_structure = false;
  // Compare LeafInfo::fingerprint instead of elements: no elements are read,
  // and different bits are a difference (DiffVerdict::kBits). Both checkpoints
  // must have fingerprints and be opened with OpenOptions::fingerprints;
  // otherwise FailedPrecondition names the checkpoint whose leaves have none.
  // Accepts no tolerances, and finds no renamed leaves.
  bool by_fingerprint = false;
  // Look for renamed leaves, which have the same kind, dtype, shape and value.
  // Reads all candidates.
  bool find_renamed = true;
  // Returns true for the leaves to compare on each side. Empty: all.
  std::function<bool(const LeafInfo&)> select;
  // How a conversion made B's leaves from A's: the new names, and the leaves
  // that are left out. A dtype that the conversion casts to is expected in B,
  // and is not a difference.
  LeafMap map;
};

// The first difference, in the order in which leaves are compared.
enum class DiffVerdict : uint8_t {
  kSame,
  kOnlyInA,
  kOnlyInB,
  kKind,
  kShape,
  kDType,   // values may differ too
  kValues,  // some elements are not close
  kBits,    // values are equal but bits differ, with DiffOptions::equal_bits;
            // or bits differ, with by_fingerprint
  kUnreadable,
};
// Returns the verdict's name: "same", "only in a", "only in b", "kind",
// "shape", "dtype", "values", "bits", "unreadable".
std::string_view DiffVerdictName(DiffVerdict verdict);

struct LeafDiff {
  DiffVerdict verdict = DiffVerdict::kSame;
  // Indices into leaves(); absent on a side that lacks the leaf.
  std::optional<size_t> a;
  std::optional<size_t> b;
  std::string name;    // in A; in B if A lacks it
  std::string name_b;  // in B, if different
  // For a leaf on one side only: the leaf on the other side with the same
  // value, to which it may have been renamed.
  std::optional<size_t> renamed;

  // Counts of elements; 0 where values were not compared.
  uint64_t element_count = 0;
  uint64_t different_count = 0;     // not equal
  uint64_t beyond_count = 0;        // of these, not close
  uint64_t nan_mismatch_count = 0;  // of these, due to a NaN on one side
  uint64_t bits_only_count = 0;     // equal, with different bits
  // Maximum over all elements except those with a NaN on one side only.
  double max_abs_error = 0;
  double max_rel_error = 0;
  // The same, exact, for two integer tensors.
  std::optional<uint64_t> max_abs_error_exact;
  // The first element in C order that is not equal (or, if all are equal, whose
  // bits differ), and its value on both sides. Absent for leaves without
  // elements.
  std::optional<Shape> first_index;
  Scalar first_a;
  Scalar first_b;
  // For strings and objects: the first byte that differs.
  std::optional<uint64_t> first_byte;
  Status problem;  // why it could not be compared
};

struct DiffResult {
  // The leaves of A in its order, then those that only B has.
  std::vector<LeafDiff> leaves;
  uint64_t same_count = 0;
  uint64_t only_in_a_count = 0;
  uint64_t only_in_b_count = 0;
  uint64_t different_count = 0;  // on both sides, and different
  uint64_t unreadable_count = 0;
  double max_abs_error = 0;  // over all leaves
  double max_rel_error = 0;
  Stats stats;  // decoded_bytes counts both sides

  bool is_same() const {
    return only_in_a_count + only_in_b_count + different_count +
               unreadable_count ==
           0;
  }
};

// Compares `a` and `b`, which may be the same checkpoint.
Result<DiffResult> Diff(const Checkpoint& a, const Checkpoint& b,
                        const DiffOptions& options = {});

// Returns the indices in result.leaves of the leaves that differ, worst first:
// leaves that cannot be read, leaves on one side only, then different kinds,
// shapes, dtypes and values. Values are ordered by NaNs on one side only,
// relative error and absolute error.
std::vector<size_t> WorstFirst(const DiffResult& result);

}  // namespace holdfast
