// Python's match.expand: a text in which references stand for groups.
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

// `groups` are a match's, the whole first; one that took no part is empty.
Result<std::string> ExpandTemplate(
    std::string_view text,
    const std::vector<std::optional<std::string_view>>& groups,
    const std::map<std::string, size_t>& group_of_name);

}  // namespace holdfast
