// Determines which leaves the new checkpoint has, with which names and dtypes:
// applies a LeafMap to the leaves of a source.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument for a rule that cannot be parsed, an unreadable leaf
// that is not left out, two leaves with one name, a leaf whose new keys are
// below another's, and with is_strict a rule that matches nothing. NotFound: a
// name that no leaf has. ResourceExhausted: a pattern that takes too long.
#pragma once

#include <string>
#include <vector>

#include "foreign/extents/target.h"
#include "holdfast/tools/convert.h"

namespace holdfast {

struct MappedLeaves {
  // In the order of the source; their texts are still empty.
  std::vector<TargetLeaf> leaves;
  ConvertReport report;
};

// `names` is as ConvertOptions::names. With `keeps_chunks` arrays keep their
// chunks unless a rule says otherwise.
Result<MappedLeaves> MapLeaves(const std::vector<LeafInfo>& leaves,
                               const std::vector<std::string>& names,
                               const LeafMap& map, bool keeps_chunks = false);

}  // namespace holdfast
