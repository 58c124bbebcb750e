// Plans the contents of a checkpoint in a foreign format: the wanted leaves,
// under names that the format can hold, with the values of leaves other than
// arrays.
//
// Thread-safety: any thread. Ownership: a plan is a value; `names` and `map`
// are borrowed for the call. Errors: those of MapLeaves, and of reading small
// values.
#pragma once

#include <string>
#include <vector>

#include "foreign/extents/target.h"
#include "holdfast/tools/convert.h"
#include "tools/convert/leaf_map.h"

namespace holdfast {

struct TargetPlanRequest {
  Format format = Format::kSafetensors;
  const std::vector<std::string>& names;  // as ConvertOptions::names
  const LeafMap& map;
  bool keeps_chunks = false;  // as in MapLeaves
  TargetOptions target;
};
// Makes the plan, and records in `report` how leaves change.
Result<TargetPlan> MakeTargetPlan(const Checkpoint& source,
                                  const TargetPlanRequest& request,
                                  ConvertReport& report);

// Reads the values of leaves that are not arrays into the plan.
Status FillTexts(const Checkpoint& source, TargetPlan& plan);

}  // namespace holdfast
