// Patterns over the names of leaves, for LeafMap and the command line.
//
// In a glob `*` and `**` are any characters (dots too), `?` one, `[abc]`,
// `[a-z]`, `[!a]` one of a set, `{a,b*}` one of some globs, `\` takes the next
// character as it is.
// Thread-safety: pure functions and values. Errors: none for a glob, where a
// set or brace that is not closed stands for itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

bool GlobMatches(std::string_view glob, std::string_view text);
// The glob matches the name, or is the name or one above it; `/` may stand for
// the dots between keys.
bool GlobSelects(std::string_view glob, std::string_view name);

// Says of a leaf's name whether it is meant.
using NamePredicate = std::function<bool(std::string_view)>;
NamePredicate SelectedByGlob(std::string glob);
// A regular expression in Python's syntax that matches the whole name.
// InvalidArgument for a malformed one; a match beyond its bounds (regex.h)
// counts as no match.
Result<NamePredicate> SelectedByRegex(std::string_view pattern);

}  // namespace holdfast
