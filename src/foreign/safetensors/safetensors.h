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
// The name that HF's libraries write. holdfast writes the same name.
inline constexpr std::string_view kSafetensorsIndexFile =
    "model.safetensors.index.json";
inline constexpr std::string_view kSafetensorsFile = "model.safetensors";

// Opens a file whose content is safetensors, or a directory with names that
// have the suffixes above; an index is opened like its directory. `place` is
// absolute. Leaves are in the order of the files' names, and in each file in
// the order of their data. If `list` is not null, it has the checksums of the
// files' directory, and everything that is read is checked against them.
Result<std::unique_ptr<Checkpoint>> OpenSafetensors(
    const Place& place, bool use_sidecar,
    std::shared_ptr<const DigestIndex> list = nullptr);

}  // namespace holdfast
