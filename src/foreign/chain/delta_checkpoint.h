// A chain of deltas as one checkpoint: while elements of the anchor are read,
// they are turned into those of the newest step, chunk by chunk.
//
// Thread-safety, errors: as holdfast/checkpoint.h. The complete chain is opened
// before anything is read. A base that is missing is NotFound, and a base that
// is not the step from which the delta was made is FailedPrecondition. Reading
// is DataLoss if the result does not have the hashes that the delta states.
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

// An opened step without its bases. The arrays of a delta are the stored bytes.
struct OpenedStep {
  std::unique_ptr<Checkpoint> checkpoint;
  std::optional<DeltaInfo> delta;
  bool is_item = false;          // the delta is an item, opened by its own path
  bool has_delta_items = false;  // several items; `delta` is then empty
};
// Opens a step (or its item `item`, if that is not empty) without its bases.
using OpenStepFn = std::function<Result<OpenedStep>(const Place& place,
                                                    const std::string& item)>;

// LeafInfo::codecs of an array that has not changed since the anchor.
inline constexpr std::string_view kUnchangedCodecs = "as in the anchor";

// A step of a chain that is already in memory, so its files are not read.
struct GivenStep {
  // `info().path` is the path from which the step was read; `result_id` is set.
  std::unique_ptr<Checkpoint> checkpoint;
  std::string content_hash;  // of the step: engine/references/content_hash.h
};

// Opens the delta at `place`, with all steps that it needs, as the tree that
// was saved. Its info has `bases` and `result_id`.
//
// Each base is looked for in all places where it may be now
// (engine/references/base_record.h), and identified by its content. If `given`
// is in the chain, the chain ends there.
Result<std::unique_ptr<Checkpoint>> OpenDelta(const Place& place,
                                              OpenedStep step,
                                              const OpenStepFn& open_step,
                                              std::optional<GivenStep> given);

// Opens the checkpoint at `path` on top of `given`, if exactly that step is in
// its chain: info().bases then ends with the path of `given`. Otherwise works
// like Open, and does not use `given`.
Result<std::unique_ptr<Checkpoint>> OpenOver(const std::string& path,
                                             GivenStep given,
                                             const OpenOptions& options);

}  // namespace holdfast
