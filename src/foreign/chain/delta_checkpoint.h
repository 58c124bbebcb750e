// A chain of deltas as one checkpoint: the anchor's elements, made those of the
// newest step chunk by chunk while they are read.
//
// Thread-safety, errors: as holdfast/checkpoint.h. The whole chain is opened
// before anything is read: a base that is missing or is another step than the
// delta was made from is NotFound or FailedPrecondition. The result has the
// hashes that the delta says, or is DataLoss.
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

// A step as its files are: a delta's arrays of bytes.
struct OpenedStep {
  std::unique_ptr<Checkpoint> checkpoint;
  std::optional<DeltaInfo> delta;
  bool is_item = false;          // the delta is one, opened by its own path
  bool has_delta_items = false;  // of several; `delta` is empty then
};
// Opens a step, or the item of it if that has a name, without following its
// chain.
using OpenStepFn = std::function<Result<OpenedStep>(const Place& place,
                                                    const std::string& item)>;

// LeafInfo::codecs of an array that is as in the anchor.
inline constexpr std::string_view kUnchangedCodecs = "as in the anchor";

// A step of a chain that is at hand: its files are not read.
struct GivenStep {
  // Its info has the path that the step had, and its result_id.
  std::unique_ptr<Checkpoint> checkpoint;
  std::string content_hash;  // engine/references/content_hash.h, of the step
};

// The step at `place`, which is a delta, with all those that it needs, as the
// tree that was saved. Its info has `bases` and `result_id`. A base is looked
// for wherever it may be now (engine/references/base_record.h), and taken by
// what it is; where `given` is one of the chain, it ends there.
Result<std::unique_ptr<Checkpoint>> OpenDelta(const Place& place,
                                              OpenedStep step,
                                              const OpenStepFn& open_step,
                                              std::optional<GivenStep> given);

// The checkpoint at `path` read on top of `given`, where its chain comes to
// that very step: info().bases then ends with its path. Any other checkpoint is
// opened as Open does, and `given` is left alone.
Result<std::unique_ptr<Checkpoint>> OpenOver(const std::string& path,
                                             GivenStep given,
                                             const OpenOptions& options);

}  // namespace holdfast
