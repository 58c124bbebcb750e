// The sink for a further generation of a process's database, without a merged
// one above it: what a TypeHandler that is called again by itself writes to.
//
// Thread-safety, ownership, units, errors: as value_sink.h.
#pragma once

#include <memory>

#include "engine/save/value_sink.h"
#include "formats/ocdbt/commit.h"

namespace holdfast {

// All values are held in memory until Finish, which adds no digests.
// REQUIRES: options.replaced; the database is there.
std::unique_ptr<ValueSink> MakeAppendSink(
    Store* store, const ValueSinkOptions& options,
    ocdbt::BulkWriteOptions write_options);

}  // namespace holdfast
