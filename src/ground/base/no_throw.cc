#include "ground/base/no_throw.h"

namespace holdfast {

const Status& OutOfMemoryError() noexcept {
  // Never freed: threads may still return it while the process exits.
  static const auto* const status =
      new Status(ResourceExhaustedError("the process is out of memory"));
  return *status;
}

namespace {

[[maybe_unused]] const Status& out_of_memory_made_at_start = OutOfMemoryError();

}  // namespace
}  // namespace holdfast
