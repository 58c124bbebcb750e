// Which leaves a list of patterns selects.
//
// A pattern is a name, a name above ("params" selects "params.w"), or a glob:
// `*` any characters (dots too), `?` one, `[abc]`, `[a-z]`, `[!a]` one of a
// set, `\` takes the next character as it is.
// Thread-safety: pure functions.
// Errors: NotFound for a pattern that selects nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/status.h"

namespace holdfast::cli {

bool GlobMatches(std::string_view pattern, std::string_view text);
bool PatternSelects(std::string_view pattern, std::string_view name);

// Indices into `leaves`, ascending; all of them when there is no pattern.
Result<std::vector<size_t>> SelectLeaves(const std::vector<LeafInfo>& leaves,
                                         std::span<const std::string> patterns);

}  // namespace holdfast::cli
