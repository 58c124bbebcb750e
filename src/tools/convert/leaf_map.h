// Determines which leaves the new checkpoint has, with which names and dtypes:
// applies a LeafMap to the leaves of a source.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument for a rule that cannot be parsed, an unreadable leaf
// that is not left out, two leaves with the same name, a leaf whose new keys
// are below another leaf's, and (with is_strict) a rule that matches nothing.
// NotFound for a name that no leaf has. ResourceExhausted for a pattern that
// takes too long.
#pragma once

#include <string>
#include <vector>

#include "foreign/extents/target.h"
#include "holdfast/tools/convert.h"

namespace holdfast {

struct MappedLeaves {
  // In the source's order. Their texts are still empty.
  std::vector<TargetLeaf> leaves;
  ConvertReport report;
};

// Selects `leaves` by `names`, as ConvertOptions::names describes, and applies
// `map`. With `keeps_chunks`, arrays keep their chunk shapes unless a rule says
// otherwise.
Result<MappedLeaves> MapLeaves(const std::vector<LeafInfo>& leaves,
                               const std::vector<std::string>& names,
                               const LeafMap& map, bool keeps_chunks = false);

}  // namespace holdfast
