// The rules on leaves that were typed, with those of --map-file.
//
// Thread-safety: reads files; otherwise pure.
// Errors: NotFound for a table that cannot be read, InvalidArgument for one
// that cannot be understood, both with its name.
#pragma once

#include "cli/args.h"
#include "holdfast/tools/convert.h"

namespace holdfast::cli {

Result<LeafMap> MapRules(const Args& args);

}  // namespace holdfast::cli
