// Makes safetensors and npz files, which are composed of text and leaves'
// elements.
//
// Thread-safety: any thread. Ownership: shares the LeafBytes.
// Errors: when a tree is made, those of planning a conversion to the format;
// when it is read, those of Checkpoint::ReadInto.
#pragma once

#include <memory>

#include "tools/virtual/file_tree.h"
#include "tools/virtual/leaf_bytes.h"

namespace holdfast {

// Makes model.safetensors, or shards with their index.
Result<std::unique_ptr<FileTree>> MakeSafetensorsFiles(
    std::shared_ptr<const LeafBytes> leaves);
// Makes arrays.npz. The first read of bytes that are not elements reads all
// arrays, to compute their CRCs.
Result<std::unique_ptr<FileTree>> MakeNpzFiles(
    std::shared_ptr<const LeafBytes> leaves);

}  // namespace holdfast
