// Patterns that match leaf names, for LeafMap and the command line.
//
// In a glob `*` and `**` match any characters (also dots), `?` matches one,
// `[abc]`, `[a-z]` and `[!a]` one of a set, `{a,b*}` one of several globs, and
// `\` takes the next character literally.
// Thread-safety: pure functions and values.
// Errors: none for a glob, in which an unclosed set or brace matches itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

bool GlobMatches(std::string_view glob, std::string_view text);
// Returns true if the glob matches the name, or is literally the name or a
// parent of it. `/` may replace the dots between keys.
bool GlobSelects(std::string_view glob, std::string_view name);

// Decides whether a leaf name is selected.
using NamePredicate = std::function<bool(std::string_view)>;
NamePredicate SelectedByGlob(std::string glob);
// Selects names that `pattern`, a regular expression in Python's syntax,
// matches completely. InvalidArgument if it is malformed. A match that would
// take too long counts as no match.
Result<NamePredicate> SelectedByRegex(std::string_view pattern);

}  // namespace holdfast
