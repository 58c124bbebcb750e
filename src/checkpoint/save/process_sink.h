// The sink for the database of one process, without the merged one above it:
// what a TypeHandler that is called by itself writes to.
//
// Thread-safety, ownership, units, errors: as value_sink.h.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/save/value_sink.h"

namespace holdfast {

// `directory` as "ocdbt.process_0/". If it holds a database, the values become
// its next generation, for which they are all held in memory until Finish;
// `replaced` arrays, by parameter name, lose the keys that they had. Of
// `options` only sync, target_data_file_bytes and commit_time_ns count: there
// are no digests.
Result<std::unique_ptr<ValueSink>> MakeProcessSink(
    Store* store, std::string directory, std::vector<std::string> replaced,
    ValueSinkOptions options);

}  // namespace holdfast
