// Wraps the body of every C API function: turns its Status into a code and the
// thread's last error, and lets no exception escape.
//
// Thread-safety: the last error is per thread.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "ground/base/no_throw.h"
#include "holdfast/c/holdfast.h"
#include "holdfast/status.h"

namespace holdfast {

// Stores a failure as the thread's last error, and returns its code.
holdfast_code Remember(const Status& status) noexcept;
// Returns the error for any exception except bad_alloc. The error is created
// when the program starts, as OutOfMemoryError() is.
const Status& ThrownError() noexcept;

// Calls fn(), which returns a Status, and returns its code.
template <typename Fn>
holdfast_code Guard(Fn&& fn) noexcept {
  try {
    return Remember(std::forward<Fn>(fn)());
  } catch (const std::bad_alloc&) {
    return Remember(OutOfMemoryError());
  } catch (...) {
    return Remember(ThrownError());
  }
}

// Returns InvalidArgument that names `what` if the pointer is null.
inline Status NotNull(const void* pointer, const char* what) {
  if (pointer != nullptr) return Status();
  return InvalidArgumentError(std::string(what) + ": null (want a pointer)");
}

// Returns OutOfRange that names `what` unless index < count.
inline Status InRange(size_t index, size_t count, const char* what) {
  if (index < count) return Status();
  return OutOfRangeError(std::string(what) + " number " +
                         std::to_string(index) + " of " +
                         std::to_string(count));
}

}  // namespace holdfast
