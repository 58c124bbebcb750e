// The rows of `array_metadatas/process_*` of a directory.
//
// Thread-safety: pure function of the file system.
// Errors: DataLoss, and those of the store, naming the file.
#pragma once

#include <string>

#include "holdfast/orbax/pytree_metadata.h"
#include "holdfast/status.h"

namespace holdfast {

// Empty when there are none.
Result<ArrayMetadatasByProcess> ReadArrayMetadatas(
    const std::string& directory);

}  // namespace holdfast
