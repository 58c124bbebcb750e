// Globs over the names of leaves, for LeafMap and the command line's patterns.
//
// `*` any characters (dots too), `?` one, `[abc]`, `[a-z]`, `[!a]` one of a
// set, `\` takes the next character as it is.
// Thread-safety: pure functions. Errors: none; a set that is not closed stands
// for itself.
#pragma once

#include <string_view>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

bool GlobMatches(std::string_view glob, std::string_view text);
// The glob matches the name, or is the name or one above it.
bool GlobSelects(std::string_view glob, std::string_view name);

}  // namespace holdfast
