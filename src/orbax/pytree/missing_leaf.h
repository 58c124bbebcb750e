// Reads strings. (type_handlers.h has Orbax's messages for missing arrays.)
//
// Thread-safety: pure functions of the file system. Errors: NotFound where
// Orbax raises FileNotFoundError, InvalidArgument where it raises ValueError,
// and the engine's for damage.
#pragma once

#include <string>

#include "holdfast/orbax/type_handlers.h"
#include "holdfast/status.h"
#include "orbax/pytree/item_source.h"

namespace holdfast {

// Returns a value of `_strings.json`. `source` may be null.
Result<std::string> ReadString(const ItemSource* source,
                               const std::string& directory,
                               const ParamInfo& info);

}  // namespace holdfast
