// Patterns that match leaf names, for LeafMap and the command line.
//
// In a glob `*` and `**` match any characters (also dots), `?` matches one,
// `[abc]`, `[a-z]` and `[!a]` one of a set, `{a,b*}` one of several globs, and
// `\` takes the next character literally.
// Thread-safety: pure functions and values.
// Errors: none for a glob; an unclosed set or brace stands for itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

bool GlobMatches(std::string_view glob, std::string_view text);
// True if the glob matches the name, or is literally the name or a parent of
// it; `/` may replace the dots between keys.
bool GlobSelects(std::string_view glob, std::string_view name);

// Decides whether a leaf name is selected.
using NamePredicate = std::function<bool(std::string_view)>;
NamePredicate SelectedByGlob(std::string glob);
// A regular expression in Python's syntax that must match the complete name.
// InvalidArgument if it is malformed; a match that exceeds its limits (regex.h)
// counts as no match.
Result<NamePredicate> SelectedByRegex(std::string_view pattern);

}  // namespace holdfast
