// Diff: what is different between two checkpoints of any formats.
//
//   auto a = holdfast::Open("/ckpt/7");
//   auto b = holdfast::Open("/converted/7.safetensors");
//   auto diff = holdfast::Diff(**a, **b);
//   if (diff.ok() && diff->is_same()) ...
//
// Leaves are matched by name. For each pair the kind is compared first, then
// shape, dtype, and at last the values: in the dtype itself, or exactly as
// numbers where the dtypes differ. No value is ever rounded on the way:
// integers of 64 bits are compared as such, all narrow floats in float64, which
// holds them.
//
// Two elements a and b:
//   equal      a == b, or both are NaN (unless DiffOptions::equal_nan is off);
//              parts of complex numbers apart. So -0.0 equals 0.0.
//   abs error  |a - b|
//   rel error  |a - b| / max(|a|, |b|), 0 for equal elements, infinity where
//              one is infinite: symmetric, and at most 2
//   close      equal, or |a - b| <= atol + rtol * max(|a|, |b|) and both are
//              finite (numpy.isclose with the larger of the two on the right)
// An element that is NaN on one side only has neither error and is never
// close; such are counted apart. Equal elements of different bits (-0.0, the
// payload of a NaN) are counted too, and are a difference only with
// DiffOptions::equal_bits.
//
// Reads pieces of both at the same time, by several threads; nothing but those
// pieces is held, within RunOptions::in_flight_bytes_max.
// Thread-safety: may run concurrently on the same checkpoints.
// Units: bytes, elements.
// Errors: Cancelled; InvalidArgument for options that make no sense, two leaves
// that get one name; FailedPrecondition where fingerprints are missing. A leaf
// that cannot be read is in the result, with the reason, and stops nothing
// else.
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
  bool equal_bits = false;  // equal values of different bits are different
  // Values of equal numbers are then equal whatever their dtypes are. Without,
  // another dtype is a difference, though the values are still compared.
  bool ignore_dtype = false;
  // Compare only structure, kinds, shapes and dtypes; no tensor is read.
  bool only_structure = false;
  // Compare LeafInfo::fingerprint instead of elements: none is read, and other
  // bits are a difference (DiffVerdict::kBits). Both checkpoints have them and
  // were opened with OpenOptions::fingerprints, or FailedPrecondition names
  // whose leaves have none. Takes no tolerances, and finds nothing renamed.
  bool by_fingerprint = false;
  // Look for leaves that were renamed: of one kind, dtype, shape and value.
  // Costs a read of those that could be.
  bool find_renamed = true;
  // Selects the leaves of each side that take part; empty: all.
  std::function<bool(const LeafInfo&)> select;
  // How a conversion made B's leaves of A's: their names, and which are left
  // out. A dtype that it casts to is the one expected in B, and no difference.
  LeafMap map;
};

// The first thing that is different, in the order in which it is looked at.
enum class DiffVerdict : uint8_t {
  kSame,
  kOnlyInA,
  kOnlyInB,
  kKind,
  kShape,
  kDType,   // values may be different too
  kValues,  // some elements are not close
  kBits,    // values are equal, and DiffOptions::equal_bits asked for more; or
            // by_fingerprint asked for no less
  kUnreadable,
};
// "same", "only in a", "only in b", "kind", "shape", "dtype", "values", "bits",
// "unreadable".
std::string_view DiffVerdictName(DiffVerdict verdict);

struct LeafDiff {
  DiffVerdict verdict = DiffVerdict::kSame;
  // Indices into leaves(); absent on the side that does not have it.
  std::optional<size_t> a;
  std::optional<size_t> b;
  std::string name;    // in A; in B where A does not have it
  std::string name_b;  // in B, where it is another one
  // For a leaf on one side only: the leaf of the other side that it may have
  // become, as both hold the same value.
  std::optional<size_t> renamed;

  // Elements; 0 where values were not compared.
  uint64_t element_count = 0;
  uint64_t different_count = 0;     // not equal
  uint64_t beyond_count = 0;        // of these, not close
  uint64_t nan_mismatch_count = 0;  // of these, for a NaN on one side
  uint64_t bits_only_count = 0;     // equal, of different bits
  // Over all elements without NaN on one side only.
  double max_abs_error = 0;
  double max_rel_error = 0;
  // The same exactly, for two integer tensors.
  std::optional<uint64_t> max_abs_error_exact;
  // The first element in C order that is not equal (or, when all are equal,
  // whose bits differ), and its value on both sides. Absent for leaves without
  // elements.
  std::optional<Shape> first_index;
  Scalar first_a;
  Scalar first_b;
  // For texts and objects: the first byte that differs.
  std::optional<uint64_t> first_byte;
  Status problem;  // why it could not be compared
};

struct DiffResult {
  // The leaves of A in its order, then those only in B.
  std::vector<LeafDiff> leaves;
  uint64_t same_count = 0;
  uint64_t only_in_a_count = 0;
  uint64_t only_in_b_count = 0;
  uint64_t different_count = 0;  // on both sides, and not the same
  uint64_t unreadable_count = 0;
  double max_abs_error = 0;  // over all leaves
  double max_rel_error = 0;
  Stats stats;  // decoded_bytes of both sides

  bool is_same() const {
    return only_in_a_count + only_in_b_count + different_count +
               unreadable_count ==
           0;
  }
};

// `a` and `b` may be the same.
Result<DiffResult> Diff(const Checkpoint& a, const Checkpoint& b,
                        const DiffOptions& options = {});

// Indices into result.leaves of the leaves that are not the same, the worst
// first: leaves that cannot be read, structure, kinds, shapes, dtypes, then
// values by NaN on one side only, relative error and absolute error.
std::vector<size_t> WorstFirst(const DiffResult& result);

}  // namespace holdfast
