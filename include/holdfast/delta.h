// Deltas: steps that are stored as their difference from another step.
//
//   holdfast::Save("/run/100", state);                  // the anchor
//   holdfast::SaveDelta("/run/101", state, "/run/100");
//   holdfast::SaveDelta("/run/102", state, "/run/101");
//   auto loaded = holdfast::Load("/run/102");           // reads all three
//
// Every function that takes a path reads, compares, verifies and converts a
// delta like any other checkpoint. To tools that do not support deltas, a delta
// looks like an Orbax checkpoint of uint8 arrays. A delta needs the steps that
// it was made from, at their original paths; Materialize
// (holdfast/tools/view.h) turns it into an ordinary step.
//
// Small training steps change 1 to 10 % of bfloat16 weights; a delta encodes
// these changes in little more than their entropy, given each weight's
// exponent. Each array is compared with the base's array of the same name, and
// is stored in full if the base lacks it or has another dtype or shape. Scalars
// and strings are stored as they are. doc/deltas.md describes the format.
// Thread-safety, ownership: as for Save and Load.
// Units: bytes.
// Errors: those of Save and Load. A read also fails with NotFound if the base
// was removed, FailedPrecondition if another checkpoint is in the base's place,
// and DataLoss if elements do not match their saved hashes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

struct DeltaResult {
  Stats stats;  // decoded_bytes are the result's, stored_bytes the delta's
  uint64_t order = 0;  // deltas from the anchor to this step
  uint64_t array_count = 0;
  uint64_t changed_array_count = 0;  // including new arrays
  // For a step that SaveInChain stored in full (order 0) although that was not
  // due, the problem with the base. Otherwise empty.
  std::string why_whole;
  // As SaveResult::notes; empty for an item, which another call commits.
  std::vector<std::string> notes;
};

// Writes `tree` at `path` as the difference from the step at `base`: a
// checkpoint of any format, or a root of steps, in which case its newest step
// is the base. The encoded differences are held in memory until all are known.
// From `save_args`, only the dtypes are used.
//
// Errors: Unimplemented for a group of several processes. InvalidArgument for a
// base that depends on the step to be replaced, and for options that a delta
// cannot honor: `also`, `fingerprints`, a `compression` or `chunk_bytes`
// other than the default, formats other than kOrbax. FailedPrecondition if the
// base changes during the save.
Result<DeltaResult> SaveDelta(const std::string& path, const Tree& tree,
                              const std::string& base,
                              const SaveOptions& options = {});

// Writes `tree` at `path` in a run that stores every `anchor_every`-th step in
// full. The step is stored as the difference from the newest committed step
// before it (by number, if `path` ends with a number). It is stored in full
// (order 0) if that is due or no earlier step exists, and also if the base
// cannot be read or changes during the save; `why_whole` then gives the reason.
// So a run continues despite damage.
//
// `fingerprints`, `compression` and `chunk_bytes` apply only to full
// steps; deltas ignore them. Everything else is as in SaveDelta.
// InvalidArgument if anchor_every is 0.
Result<DeltaResult> SaveInChain(const std::string& path, const Tree& tree,
                                uint64_t anchor_every,
                                const SaveOptions& options = {});

// Like SaveItem (pending_save.h), in a run of deltas: writes the item in
// `directory`, which belongs to a step that is not committed yet, as
// SaveInChain would write a step. The base is the item of the same name in an
// earlier step. Only for a single process.
Result<DeltaResult> SaveItemInChain(const std::string& directory,
                                    const Tree& tree, uint64_t anchor_every,
                                    const SaveOptions& options = {});

// The change that a delta makes to one array: values[i] is the new element at
// indices[i] of the array in C order. Indices ascend.
struct ArrayPatch {
  std::string name;
  Shape shape;  // of the complete array
  std::vector<int64_t> indices;
  Array values;  // one axis; has the array's dtype
};

// Passes the checked patches of a delta to `take`, one array at a time. Every
// array that differs from the base has a patch; the patch of a new array has
// all its elements. If `take` fails, the call ends and returns its status.
// FailedPrecondition if `path` is not a delta.
Status ReadPatches(const std::string& path,
                   const std::function<Status(ArrayPatch patch)>& take,
                   const RunOptions& run = {});

// Keeps arrays in memory at the newest step of a run.
//
// `arrays` has a leaf's name, and contiguous memory of the leaf's dtype and
// shape, which is updated in place. If the newest step is a delta that depends
// on the step in memory, only the deltas after that step are read. Otherwise
// the newest step is read in full, into additional memory. The caller's memory
// changes only when the new contents are known to be correct; until then the
// changed elements need extra memory.
// Thread-safety: one thread at a time.
// Ownership: borrows the memory, which nobody else may change.
class Follower {
 public:
  struct Update {
    int64_t step = 0;
    std::string path;
    uint64_t delta_count = 0;          // applied; 0: the step was read in full
    uint64_t read_bytes = 0;           // stored
    std::vector<std::string> changed;  // names of arrays
  };
  struct Target {
    std::string name;
    ArrayView memory;
  };

  Follower(std::string root, std::vector<Target> arrays, RunOptions run = {});
  ~Follower();
  Follower(Follower&&) noexcept;

  // Updates the memory to the newest committed step. Returns nullopt if the
  // memory already holds that step, or the root has no steps. After a failure
  // the memory is unchanged. InvalidArgument for memory whose dtype or shape
  // differs from its leaf's.
  Result<std::optional<Update>> Poll();
  // Returns the step that the memory holds; nullopt before the first Poll.
  std::optional<int64_t> step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
