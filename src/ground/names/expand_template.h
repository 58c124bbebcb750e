// Python's match.expand: replaces the group references in a string.
//
// Source: Python 3.11, "re.sub" of the library reference.
// Thread-safety: pure function.
// Errors: InvalidArgument with Python's messages.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// `groups` are the groups of a match, the whole match first; a group that did
// not participate counts as empty.
Result<std::string> ExpandTemplate(
    std::string_view text,
    const std::vector<std::optional<std::string_view>>& groups,
    const std::map<std::string, size_t>& group_of_name);

}  // namespace holdfast
