// Formats other than Orbax's: recognizes them by their files, and opens them.
// Open, Load and Verify of holdfast/checkpoint.h are built on this.
//
// Thread-safety: pure functions of the file system.
// Errors: as holdfast/checkpoint.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

enum class ForeignFormat : uint8_t {
  kNone,  // Orbax's rules apply (engine/commit/layout.h)
  kSafetensors,
  kNpz,
  kTorchFile,     // torch.save
  kDcp,           // torch.distributed.checkpoint
  kTorchDist,     // kDcp as written by Megatron
  kMegatronZarr,  // Megatron's zarr strategy
};

// Returns the name of the format in CheckpointInfo::format; "" for kNone.
std::string_view ForeignFormatName(ForeignFormat format);

// Recognizes a file by its name and first bytes, and a directory by the names
// in it. `place` may be anything; kNone if it is missing.
Result<ForeignFormat> FindForeignFormat(const Place& place);

struct ForeignPlace {
  ForeignFormat format = ForeignFormat::kNone;
  Place place;          // of the checkpoint itself
  OpenOptions options;  // without the step that selected `place`
};

// Like FindForeignFormat. But if `place` is the root of Megatron's runs, which
// has a file `latest_checkpointed_iteration.txt`, returns the checkpoint that
// this file or options.step names: `iter_0000100`, `release`.
Result<ForeignPlace> FindForeignPlace(const Place& place,
                                      const OpenOptions& options);

// Opens a checkpoint of a foreign format. If it has a sidecar and `use_sidecar`
// is set, reads it through the sidecar. REQUIRES: `format` is not kNone.
Result<std::unique_ptr<Checkpoint>> OpenForeign(ForeignFormat format,
                                                const Place& place,
                                                const OpenOptions& options,
                                                bool use_sidecar = true);

// Implements Open of holdfast/checkpoint.h, for a place.
Result<std::unique_ptr<Checkpoint>> OpenPlace(const Place& place,
                                              const OpenOptions& options);

}  // namespace holdfast
