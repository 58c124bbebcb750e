// Divides work into runs that stay below a limit of bytes in flight.
//
// Thread-safety: as LimitInFlightBytes. Ownership: borrows the limiter.
// Units: bytes. Errors: those of WaitForBytes and of the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

// Calls fn(first, last) for runs that cover [0, count) in order. A run has as
// many items as fit below the limit together, but at least one. Its bytes are
// reserved while fn runs. A null limiter means no limit: everything is one run.
Status ForEachRunBelow(LimitInFlightBytes* limiter, size_t count,
                       const std::function<int64_t(size_t item)>& bytes_of,
                       const std::function<Status(size_t, size_t)>& fn);

}  // namespace holdfast
