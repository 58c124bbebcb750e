// Plans the leaves that a recipe makes from a checkpoint's leaves. Uses only
// their LeafInfos.
//
// Thread-safety: pure function and values. Units: elements.
// Errors: InvalidArgument, naming the rule and the leaves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/recipe.h"
#include "tools/recipe/axis_map.h"
#include "tools/recipe/rules.h"

namespace holdfast {

struct ScaleArrays {
  std::vector<size_t> leaves;  // in the source, one per source array
  // Elements of the source array per scale, one number per axis.
  Shape block;
  // The scale has a single element, whatever its rank.
  bool is_single = false;
};

// The source arrays that a rule combines for one set of values of its
// placeholders; or a single leaf that is not an array, unchanged.
struct SourceStack {
  // Leaves of the source, in C order of map.stacked.
  std::vector<size_t> leaves;
  bool has_elements = true;
  AxisMap map;
  DType source_dtype = DType::kUint8;
  DType dtype = DType::kUint8;  // of the target
  std::optional<ScaleArrays> scales;
};

struct RecipeLeaf {
  // Shared by tied leaves, and by leaves that are parts of the same array.
  std::shared_ptr<const SourceStack> stack;
  Shape split;  // which part: the values of map.split
};

struct RecipePlan {
  std::vector<LeafInfo> infos;
  std::vector<RecipeLeaf> leaves;  // in the order of infos
};

Result<RecipePlan> PlanRecipe(const std::vector<LeafInfo>& source,
                              const RecipeRules& rules,
                              const RecipeOptions& options);

}  // namespace holdfast
