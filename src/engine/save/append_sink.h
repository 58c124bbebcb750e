// A sink that adds a generation to a process's database and merges no database
// above it, for a TypeHandler that is called again outside a save.
//
// Thread-safety, ownership, units, errors: as value_sink.h.
#pragma once

#include <memory>

#include "engine/save/value_sink.h"
#include "formats/ocdbt/commit.h"

namespace holdfast {

// Makes a sink that holds all values in memory until Finish, which adds no
// digests.
// REQUIRES: options.replaced is set; the database exists.
std::unique_ptr<ValueSink> MakeAppendSink(
    Store* store, const ValueSinkOptions& options,
    ocdbt::BulkWriteOptions write_options);

}  // namespace holdfast
