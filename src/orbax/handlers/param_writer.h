// Writing the arrays of a handler through the engine: planned, encoded on all
// threads, into files or one more generation of a process's database.
//
// Thread-safety: one call a directory at a time. Ownership: borrows values.
// Units: bytes. Errors: those of Serialize.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

// WriteParams of values that go to any places in any ways, in the order of the
// infos. `args` is empty or has one a value. Leaves other than arrays and
// numbers are InvalidArgument.
Result<std::vector<WrittenParam>> WriteParams(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> args, const ParamWriteOptions& options);

}  // namespace holdfast
