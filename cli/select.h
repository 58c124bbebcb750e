// Selects leaves by a list of patterns.
//
// A pattern is a leaf's name, the name of a node above it ("params" selects
// "params.w"), or a glob (holdfast/tools/glob.h); with --regex it is a regular
// expression.
// Thread-safety: pure functions.
// Errors: NotFound for a pattern that selects nothing, with the nearest names;
// InvalidArgument for a malformed regular expression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/status.h"

namespace holdfast::cli {

enum class PatternKind : uint8_t { kGlob, kRegex };

// Returns the selected indices of `leaves`, ascending. Without patterns,
// returns all indices.
Result<std::vector<size_t>> SelectLeaves(const std::vector<LeafInfo>& leaves,
                                         std::span<const std::string> patterns,
                                         PatternKind kind = PatternKind::kGlob);

// Returns " (did you mean params.w?)", for example, or how to list leaves if no
// name is similar.
std::string LeafHint(const std::vector<LeafInfo>& leaves,
                     std::string_view wanted);

}  // namespace holdfast::cli
