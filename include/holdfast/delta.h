// Deltas: steps that are stored as what has changed since another.
//
//   holdfast::Save("/run/100", state);                  // the anchor
//   holdfast::SaveDelta("/run/101", state, "/run/100");
//   holdfast::SaveDelta("/run/102", state, "/run/101");
//   auto loaded = holdfast::Load("/run/102");           // reads all three
//
// A delta is read, compared, verified and converted as any checkpoint is, by
// every function that takes a path. It is an Orbax checkpoint of uint8 arrays
// to tools that do not know of deltas. It needs the steps that it was made
// from, where they were; Materialize (holdfast/tools/view.h) makes an ordinary
// step of it.
//
// Small steps of training change 1 to 10 % of bfloat16 weights, which a delta
// codes near the entropy of the change given each weight's exponent. Arrays are
// compared with those of the same name; one of another dtype or shape, or that
// the base does not have, is stored whole. Scalars and texts are stored as they
// are. doc/deltas.md has the format.
// Thread-safety, ownership: as Save and Load.
// Units: bytes. Errors: those of Save and Load. Reading: NotFound for a base
// that is gone, FailedPrecondition for one that is not what the delta was made
// from, DataLoss for elements that do not have the hashes that were saved.
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
  uint64_t order = 0;  // deltas from the anchor to here
  uint64_t array_count = 0;
  uint64_t changed_array_count = 0;  // new ones among them
  // Says, for a step in a run that is whole though it was not due (order 0),
  // what was wrong with the base. Empty otherwise.
  std::string why_whole;
};

// Writes `tree` at `path` as the difference from the step at `base`, a
// checkpoint of any format, or a root of steps, of which the newest is meant.
// The encoded differences are held in memory until all are known. One process
// only: Unimplemented for a group of several. `save_args` counts only with its
// dtypes. InvalidArgument for a base that is made from the step that is to be
// replaced, and for options that a delta has no place for: `also`,
// `fingerprints`, other than the default `compression` and
// `chunk_bytes_target`, other formats than kOrbax. FailedPrecondition when the
// base changes meanwhile.
Result<DeltaResult> SaveDelta(const std::string& path, const Tree& tree,
                              const std::string& base,
                              const SaveOptions& options = {});

// Writes `tree` at `path` in a run that is whole once in `anchor_every` steps:
// as the difference from the newest committed step before it, by number where
// `path` ends with one, or whole (order 0) where that is due or no such step
// exists. A run goes on beside damage: where the base cannot be read or changes
// meanwhile, the step is whole, and `why_whole` says why. `fingerprints`,
// `compression` and `chunk_bytes_target` are those of whole steps; deltas have
// none of them. Otherwise as SaveDelta. InvalidArgument for anchor_every of 0.
Result<DeltaResult> SaveInChain(const std::string& path, const Tree& tree,
                                uint64_t anchor_every,
                                const SaveOptions& options = {});

// SaveItem (pending_save.h) in a run of deltas: writes `directory`, an item of
// a step that is not committed yet, as SaveInChain would write a step, from the
// items of that name. One process only.
Result<DeltaResult> SaveItemInChain(const std::string& directory,
                                    const Tree& tree, uint64_t anchor_every,
                                    const SaveOptions& options = {});

// The change that a delta makes to one array: values[i] is the element at
// indices[i] of the array in C order. Ascending.
struct ArrayPatch {
  std::string name;
  Shape shape;  // of the whole array
  std::vector<int64_t> indices;
  Array values;  // one axis, of the array's dtype
};

// The patches of a delta, one array at a time, checked: what `take` fails with
// ends it. Arrays that are not as in the base are all there, new ones with all
// of their elements. FailedPrecondition when `path` is not a delta.
Status ReadPatches(const std::string& path,
                   const std::function<Status(ArrayPatch patch)>& take,
                   const RunOptions& run = {});

// Keeps arrays in memory at the newest step of a run.
//
// `arrays`: by leaf name, memory of the leaf's dtype and shape, contiguous,
// which is written in place. Where the chain of the newest step comes to the
// step that memory holds, the deltas from there on are read, and memory changes
// only when all that they make of it is known to be right; the changed elements
// take memory until then. Any other step is read whole, beside the old one.
// Thread-safety: one thread at a time. Ownership: borrows the memory, which
// nobody else changes.
class Follower {
 public:
  struct Update {
    int64_t step = 0;
    std::string path;
    uint64_t delta_count = 0;          // applied; 0: the step was read whole
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

  // Brings memory to the newest committed step; nullopt when it is there
  // already, or the root has none. After a failure memory is as it was.
  // InvalidArgument for memory of another dtype or shape than its leaf.
  Result<std::optional<Update>> Poll();
  // The step that memory holds.
  std::optional<int64_t> step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace HOLDFAST_EXPORT
