// Handlers for items that are a single text file: JSON documents and protocol
// buffers.
//
// Thread-safety, ownership, errors: as item_handlers.h.
#pragma once

#include <memory>
#include <string_view>

#include "holdfast/orbax/item_handlers.h"

namespace holdfast {

// Makes a handler for JSON items that is recorded as `typestr`.
std::shared_ptr<CheckpointHandler> MakeJsonHandlerAs(
    std::string_view typestr, JsonHandlerOptions options);

}  // namespace holdfast
