// Reads safetensors: one file, a directory with an index, or a directory of
// files.
//
// Thread-safety: pure functions of the file system.
// Errors: NotFound; DataLoss for a file that violates the format, a tensor in
// two files, or an index that contradicts the files; FailedPrecondition for a
// sidecar that does not fit.
#pragma once

#include <memory>
#include <string>

#include "engine/check/digest_index.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

inline constexpr std::string_view kSafetensorsSuffix = ".safetensors";
inline constexpr std::string_view kSafetensorsIndexSuffix =
    ".safetensors.index.json";
// The name that the libraries of HF write; holdfast writes the same.
inline constexpr std::string_view kSafetensorsIndexFile =
    "model.safetensors.index.json";
inline constexpr std::string_view kSafetensorsFile = "model.safetensors";

// `place` is absolute: a file whose content is safetensors, or a directory with
// names of the suffixes above (an index stands for its directory). Leaves are
// in the order of the files' names, then of their data. `list` has the
// checksums of the files' directory, against which everything that is read is
// checked; null if there are no checksums.
Result<std::unique_ptr<Checkpoint>> OpenSafetensors(
    const Place& place, bool use_sidecar,
    std::shared_ptr<const DigestIndex> list = nullptr);

}  // namespace holdfast
