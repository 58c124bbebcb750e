// Reading files of torch.save (.pt, .pth, .bin, .ckpt) as checkpoints.
//
// The dicts, lists and tuples of the pickle are the tree; tensors lie in the
// file and are read from there; numbers, texts and numpy arrays are leaves. Any
// other object is a leaf of kind kObject. Nothing that the pickle names is run.
// Thread-safety: pure functions of the file system.
// Errors: NotFound; those of holdfast/tools/torch_file.h with the path. A
// tensor that cannot be read is its leaf's `problem`.
#pragma once

#include <memory>

#include "holdfast/checkpoint.h"
#include "place/place.h"

namespace holdfast {

// `file` is absolute. With `verify` a storage is compared with its CRC before
// the first part of it is given; files from before torch 1.6 have none.
Result<std::unique_ptr<Checkpoint>> OpenTorchFile(const Place& file,
                                                  bool verify);

// False for a file from before torch 1.6, and for one that was saved without.
Result<bool> HasChecksums(const Place& file);

}  // namespace holdfast
