// Reads torch.save files (.pt, .pth, .bin, .ckpt) as checkpoints: one file, the
// files of an index (pytorch_model.bin.index.json), or, without an index, the
// files of a directory whose names form a model (weight_index.h).
//
// The dicts, lists and tuples of the pickle are the tree. Tensors are read from
// their place in the file; numbers, strings and numpy arrays are leaves. A
// module is the tree of its state_dict(). Any other object is a leaf of kind
// kObject.
//
// Nothing that the pickle names is run. A value that requires running code is a
// leaf of kind kObject with a `problem` (PermissionDenied); the other values
// can be read.
//
// Thread-safety: pure functions of the file system.
// Errors: NotFound; those of holdfast/tools/torch_file.h with the path; those
// of weight_index.h; PermissionDenied for names that are hidden in the pickle
// and in no value. A tensor that cannot be read is its leaf's `problem`.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

inline constexpr std::string_view kTorchIndexSuffix = ".bin.index.json";
inline constexpr std::string_view kTorchIndexFile =
    "pytorch_model.bin.index.json";

// Opens a file, an index, or a directory with files or an index. `place` is
// absolute. With `verify`, a storage is compared with its CRC before any part
// of it is returned. Files from before torch 1.6 have no CRCs.
Result<std::unique_ptr<Checkpoint>> OpenTorchFile(const Place& place,
                                                  bool verify);

// Returns the zip archives that `place` consists of. Empty if one of its files
// is from before torch 1.6, or was saved without checksums.
Result<std::vector<Place>> CheckedArchives(const Place& place);

}  // namespace holdfast
