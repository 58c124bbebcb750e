// Files composed of text and the elements of leaves: those of safetensors and
// npz.
//
// Thread-safety: any thread. Ownership: shares the LeafBytes.
// Errors: those of planning a conversion to the format, when a tree is made;
// those of Checkpoint::ReadInto, when it is read.
#pragma once

#include <memory>

#include "tools/virtual/file_tree.h"
#include "tools/virtual/leaf_bytes.h"

namespace holdfast {

// model.safetensors, or shards with their index.
Result<std::unique_ptr<FileTree>> MakeSafetensorsFiles(
    std::shared_ptr<const LeafBytes> leaves);
// arrays.npz. The first read of anything but elements reads all arrays, to
// compute their CRCs.
Result<std::unique_ptr<FileTree>> MakeNpzFiles(
    std::shared_ptr<const LeafBytes> leaves);

}  // namespace holdfast
