// An item of a plan that is made, in a directory of the caller's.
//
// Thread-safety, ownership, units, errors: as holdfast/pending_save.h.
#pragma once

#include "engine/save/save_plan.h"
#include "ground/run/run.h"
#include "holdfast/pending_save.h"
#include "stores/place/place.h"

namespace holdfast {

// The part of an item that the process plans; null: it is the only one.
PlanPart PlanPartOf(const ProcessPart* part);

// SaveItem, or SaveItemPart where `part` is not null. `begun` when the caller
// called. REQUIRES: a plan as PlanPartOf says, of ItemOptions for `directory`.
Result<SaveResult> SavePlannedItem(const Place& directory, const SavePlan& plan,
                                   const ProcessPart* part,
                                   const Stopwatch& begun);

}  // namespace holdfast
