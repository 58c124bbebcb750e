// Selects leaves by a list of patterns.
//
// A pattern is a name, a name above ("params" selects "params.w"), or a glob
// (holdfast/tools/glob.h).
// Thread-safety: pure functions.
// Errors: NotFound for a pattern that selects nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// Indices into `leaves`, ascending; all of them when there is no pattern.
Result<std::vector<size_t>> SelectLeaves(const std::vector<LeafInfo>& leaves,
                                         std::span<const std::string> patterns);

}  // namespace holdfast::cli
