// A ValueSink for a plan with `also`: writes metadata to the database, and
// chunks to the other format's files, to which the database gets references.
//
// Thread-safety, ownership, errors: as ValueSink; borrows the plan.
#pragma once

#include <memory>
#include <vector>

#include "engine/save/float_sums.h"
#include "engine/save/save_plan.h"
#include "engine/save/value_sink.h"
#include "formats/ocdbt/merge.h"

namespace holdfast {

// Returns the number of the plan's values that go to the database.
uint64_t DatabaseValueCount(const SavePlan& plan);

// Makes the sink. `database`, which must have been made with the same options,
// receives DatabaseValueCount values and the references.
Result<std::unique_ptr<ValueSink>> MakeAlsoSink(
    Store* store, const SavePlan& plan, bool sync, FloatSums& floats,
    std::unique_ptr<ValueSink> database);

// Collects from the parts' digest rows the references to merge into the root
// database. DataLoss if a row names bytes that are not in the plan.
Result<ocdbt::MergeChild> ReferencesOfRows(
    const SavePlan& plan, const std::vector<const DigestFile*>& parts);

}  // namespace holdfast
