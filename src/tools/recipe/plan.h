// The leaves that a recipe makes of a checkpoint's leaves, worked out only from
// their infos.
//
// Thread-safety: pure function and values. Units: elements.
// Errors: InvalidArgument, naming rule and leaves.
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
  std::vector<size_t> leaves;  // of the source, one a source array
  // Elements of the source array a scale, one number an axis.
  Shape block;
  // The scale is one element, of whatever rank.
  bool is_single = false;
};

// The arrays that one combination of a rule's placeholders is made of; or one
// leaf other than an array, as it is.
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
  // Shared by leaves that are tied, or parts of one.
  std::shared_ptr<const SourceStack> stack;
  Shape split;  // which of them: the values of map.split
};

struct RecipePlan {
  std::vector<LeafInfo> infos;
  std::vector<RecipeLeaf> leaves;  // as infos
};

Result<RecipePlan> PlanRecipe(const std::vector<LeafInfo>& source,
                              const RecipeRules& rules,
                              const RecipeOptions& options);

}  // namespace holdfast
