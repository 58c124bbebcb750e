// Reads the metadata of an item's leaves, without reading values.
//
// Thread-safety: pure function of the file system.
// Errors: NotFound without `_METADATA`; DataLoss; InvalidArgument for a type
// without a handler.
#pragma once

#include <string>

#include "holdfast/pytree_metadata.h"
#include "holdfast/status.h"
#include "orbax/pytree/settings.h"

namespace holdfast {

Result<PyTreeMetadata> ReadPyTreeMetadata(const PyTreeSettings& settings,
                                          const std::string& directory);

}  // namespace holdfast
