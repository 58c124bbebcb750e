// Formats other than Orbax's: recognises them by their files, and opens them.
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

// The name of the format in CheckpointInfo::format; "" for kNone.
std::string_view ForeignFormatName(ForeignFormat format);

// Decides by the name and the first bytes of a file, or by the names in a
// directory. `place` may be anything, even missing (kNone).
Result<ForeignFormat> FindForeignFormat(const Place& place);

struct ForeignPlace {
  ForeignFormat format = ForeignFormat::kNone;
  Place place;          // of the checkpoint itself
  OpenOptions options;  // without the step that led there
};

// Like FindForeignFormat. But if `place` is the root of Megatron's runs, which
// has a file `latest_checkpointed_iteration.txt`, finds the checkpoint that
// this file or options.step names: `iter_0000100`, `release`.
Result<ForeignPlace> FindForeignPlace(const Place& place,
                                      const OpenOptions& options);

// Opens a checkpoint of a foreign format, with its sidecar if it has one and
// `use_sidecar` is set. REQUIRES: not kNone.
Result<std::unique_ptr<Checkpoint>> OpenForeign(ForeignFormat format,
                                                const Place& place,
                                                const OpenOptions& options,
                                                bool use_sidecar = true);

// Implements Open of holdfast/checkpoint.h, for a place.
Result<std::unique_ptr<Checkpoint>> OpenPlace(const Place& place,
                                              const OpenOptions& options);

}  // namespace holdfast
