// A ValueSink for a plan with `also`: metadata goes to the database below it,
// chunks into the other format's files, of which the database gets references.
//
// Thread-safety, ownership, errors: as ValueSink; borrows the plan.
#pragma once

#include <memory>
#include <vector>

#include "engine/save/save_plan.h"
#include "engine/save/value_sink.h"
#include "formats/ocdbt/merge.h"

namespace holdfast {

// How many values of the plan go to the database.
uint64_t DatabaseValueCount(const SavePlan& plan);

// `database`, made by the same options, takes DatabaseValueCount values, and
// references.
Result<std::unique_ptr<ValueSink>> MakeAlsoSink(
    Store* store, const SavePlan& plan, bool sync,
    std::unique_ptr<ValueSink> database);

// Collects from the parts' digest rows the references to merge into the root
// database. DataLoss if a row names bytes that the plan has not.
Result<ocdbt::MergeChild> ReferencesOfRows(
    const SavePlan& plan, const std::vector<const DigestFile*>& parts);

}  // namespace holdfast
