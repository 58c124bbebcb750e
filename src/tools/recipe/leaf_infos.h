// The leaves of the target, as a checkpoint describes its leaves.
//
// Thread-safety: pure functions. Errors: InvalidArgument.
#pragma once

#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "tools/recipe/plan.h"
#include "tools/recipe/rules.h"

namespace holdfast {

// The leaf `keys`, made of `stack`. `has_axes`: it is another array than the
// source's, of which only the elements stay.
LeafInfo TargetInfo(const std::vector<LeafInfo>& source,
                    const SourceStack& stack, bool has_axes,
                    std::vector<std::string> keys);

// Two leaves of one name, a leaf below another, keys too deep. `rules` made the
// leaves; null for those that are kept, and may be below each other.
Status CheckTargetNames(const std::vector<LeafInfo>& infos,
                        const std::vector<const RecipeRule*>& rules);

}  // namespace holdfast
