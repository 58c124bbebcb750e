// Saves a planned item into the caller's own directory.
//
// Thread-safety, ownership, units, errors: as holdfast/pending_save.h.
#pragma once

#include "engine/save/save_plan.h"
#include "ground/run/run.h"
#include "holdfast/pending_save.h"
#include "stores/place/place.h"

namespace holdfast {

// Returns the part of an item that the process plans. A null `part` means the
// complete item.
PlanPart PlanPartOf(const ProcessPart* part);

// Does the work of SaveItem, or of SaveItemPart if `part` is not null. `begun`
// was started when the caller's call began. REQUIRES: a plan for
// PlanPartOf(part), with ItemOptions for `directory`.
Result<SaveResult> SavePlannedItem(const Place& directory, const SavePlan& plan,
                                   const ProcessPart* part,
                                   const Stopwatch& begun);

}  // namespace holdfast
