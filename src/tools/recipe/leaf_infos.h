// Makes the LeafInfos of the target's leaves.
//
// Thread-safety: pure functions. Errors: InvalidArgument.
#pragma once

#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "tools/recipe/plan.h"
#include "tools/recipe/rules.h"

namespace holdfast {

// Returns the LeafInfo of the leaf with the key `keys`, made from `stack`. With
// `has_axes`, the array's layout differs from the source's, and only its
// elements stay the same.
LeafInfo TargetInfo(const std::vector<LeafInfo>& source,
                    const SourceStack& stack, bool has_axes,
                    std::vector<std::string> keys);

// Fails for two leaves with the same name, for a leaf below another leaf, and
// for keys nested too deeply. `rules` has the rule that made each leaf, or null
// for a leaf that is kept. A kept leaf may be below another kept leaf.
Status CheckTargetNames(const std::vector<LeafInfo>& infos,
                        const std::vector<const RecipeRule*>& rules);

}  // namespace holdfast
