// Leaves without an array: strings, and Orbax's words for missing ones.
//
// Thread-safety: pure functions of the file system. Errors: NotFound where
// Orbax raises FileNotFoundError, InvalidArgument where it raises ValueError,
// and the engine's for damage.
#pragma once

#include <string>

#include "holdfast/orbax/type_handlers.h"
#include "holdfast/status.h"
#include "pytree/item_source.h"

namespace holdfast {

// The error for the missing array of `info`. `problem`: the engine's error; ok
// when the engine knows no such leaf.
Status MissingArrayError(const ParamInfo& info, const Status& problem);

// A value of `_strings.json`. `source` may be null.
Result<std::string> ReadString(const ItemSource* source,
                               const std::string& directory,
                               const ParamInfo& info);

}  // namespace holdfast
