// Encode: turns the values of a SavePlan into bytes in a ValueSink, on all
// threads.
//
// Thread-safety: one call per Run at a time.
// Ownership: borrows the plan's tree until the sink's Finish returns.
// Units: bytes.
// Errors: Cancelled, those of the codecs (naming the leaf) and of the sink.
#pragma once

#include <vector>

#include "engine/save/save_plan.h"
#include "engine/save/value_sink.h"
#include "ground/fingerprint/sum.h"
#include "ground/run/run.h"

namespace holdfast {

// Encodes all values, and adds the sizes of the encoded chunks to
// stats.stored_bytes. With SaveOptions::fingerprints, sets `sums` to the sums
// of the elements encoded here, indexed like plan.arrays.
Status EncodeValues(const SavePlan& plan, ValueSink& sink, Run& run,
                    Stats& stats, std::vector<FingerprintSum>& sums);

}  // namespace holdfast
