// Writes the arrays of a handler through the engine. They are planned, encoded
// on all threads, and written to files or to a new generation of a process's
// database.
//
// Thread-safety: one call per directory at a time. Ownership: borrows values.
// Units: bytes. Errors: those of Serialize.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

// WriteParams for values with any mix of places and formats. The result is in
// the order of the infos. `args` is empty or has one entry per value.
// InvalidArgument for leaves other than arrays and numbers.
Result<std::vector<WrittenParam>> WriteParams(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> args, const ParamWriteOptions& options);

}  // namespace holdfast
