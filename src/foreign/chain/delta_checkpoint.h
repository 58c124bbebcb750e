// A chain of deltas as one checkpoint: elements of the anchor are turned into
// those of the newest step chunk by chunk while they are read.
//
// Thread-safety, errors: as holdfast/checkpoint.h. The complete chain is opened
// before anything is read: a base that is missing, or that is not the step from
// which the delta was made, is NotFound or FailedPrecondition. If the result
// does not have the hashes that the delta states, reading is DataLoss.
// Ownership: owns the steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "foreign/chain/delta_info.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

// A step as its files are: the arrays of a delta are bytes.
struct OpenedStep {
  std::unique_ptr<Checkpoint> checkpoint;
  std::optional<DeltaInfo> delta;
  bool is_item = false;          // the delta is an item, opened by its own path
  bool has_delta_items = false;  // several items; `delta` is then empty
};
// Opens a step, or its item with the name `item` if that is not empty, without
// following the chain.
using OpenStepFn = std::function<Result<OpenedStep>(const Place& place,
                                                    const std::string& item)>;

// LeafInfo::codecs of an array that is unchanged from the anchor.
inline constexpr std::string_view kUnchangedCodecs = "as in the anchor";

// A step of a chain that is already in memory: its files are not read.
struct GivenStep {
  // Its info has the path from which the step was read, and its result_id.
  std::unique_ptr<Checkpoint> checkpoint;
  std::string content_hash;  // engine/references/content_hash.h, of the step
};

// Opens the step at `place`, which is a delta, with all steps that it needs, as
// the tree that was saved. Its info has `bases` and `result_id`. A base is
// looked for in all places where it may be now
// (engine/references/base_record.h), and identified by its content. If `given`
// is in the chain, the chain ends there.
Result<std::unique_ptr<Checkpoint>> OpenDelta(const Place& place,
                                              OpenedStep step,
                                              const OpenStepFn& open_step,
                                              std::optional<GivenStep> given);

// Opens the checkpoint at `path` on top of `given`, if that very step is in its
// chain: info().bases then ends with the path of `given`. Any other checkpoint
// is opened like in Open, and `given` is unused.
Result<std::unique_ptr<Checkpoint>> OpenOver(const std::string& path,
                                             GivenStep given,
                                             const OpenOptions& options);

}  // namespace holdfast
