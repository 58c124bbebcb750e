// Which leaves the new checkpoint has, under which names, with which dtypes:
// LeafMap applied to the leaves of a source.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument: a rule that cannot be understood; a leaf that nobody
// can read and that is not left out; two leaves of one name; a leaf whose new
// keys lie below another's; with is_strict a rule that matches nothing.
// NotFound: a name that no leaf has. ResourceExhausted: a pattern that takes
// too long.
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

// `names` as ConvertOptions::names. `keeps_chunks`: arrays keep the chunks they
// have, where no rule says otherwise.
Result<MappedLeaves> MapLeaves(const std::vector<LeafInfo>& leaves,
                               const std::vector<std::string>& names,
                               const LeafMap& map, bool keeps_chunks = false);

}  // namespace holdfast
