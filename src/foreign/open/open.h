// Formats that are not Orbax's: recognising them by their files, and opening
// them. Open, Load and Verify of holdfast/checkpoint.h are built on it.
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
  kTorchDist,     // the same, written by Megatron
  kMegatronZarr,  // Megatron's zarr strategy
};

// The name that CheckpointInfo::format has for it; "" for kNone.
std::string_view ForeignFormatName(ForeignFormat format);

// Decided by the name of a file and its first bytes, or by the names in a
// directory. `place` may be anything, a missing one too (kNone).
Result<ForeignFormat> FindForeignFormat(const Place& place);

struct ForeignPlace {
  ForeignFormat format = ForeignFormat::kNone;
  Place place;          // of the checkpoint itself
  OpenOptions options;  // without a step that led there
};

// As FindForeignFormat; but for a root of Megatron's runs, which has a file
// `latest_checkpointed_iteration.txt`, the checkpoint that this file names:
// `iter_0000100`, `release`; or that of options.step.
Result<ForeignPlace> FindForeignPlace(const Place& place,
                                      const OpenOptions& options);

// A checkpoint of a foreign format, with its sidecar if it has one and
// `use_sidecar`. REQUIRES: not kNone.
Result<std::unique_ptr<Checkpoint>> OpenForeign(ForeignFormat format,
                                                const Place& place,
                                                const OpenOptions& options,
                                                bool use_sidecar = true);

// Open of holdfast/checkpoint.h, for a place.
Result<std::unique_ptr<Checkpoint>> OpenPlace(const Place& place,
                                              const OpenOptions& options);

}  // namespace holdfast
