// The frame of every function of the C API: a Status becomes a code and the
// thread's last error, and no exception comes out.
//
// Thread-safety: the last error is the thread's own.
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

// Keeps a failure as the thread's last error; its code.
holdfast_code Remember(const Status& status) noexcept;
// The error for anything but bad_alloc. Made when the program starts, as
// OutOfMemoryError() is.
const Status& ThrownError() noexcept;

// fn(), which returns a Status, as a code.
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

// InvalidArgument that names `what` when the pointer is null.
inline Status NotNull(const void* pointer, const char* what) {
  if (pointer != nullptr) return Status();
  return InvalidArgumentError(std::string(what) + ": null (want a pointer)");
}

// OutOfRange that names `what` unless index < count.
inline Status InRange(size_t index, size_t count, const char* what) {
  if (index < count) return Status();
  return OutOfRangeError(std::string(what) + " number " +
                         std::to_string(index) + " of " +
                         std::to_string(count));
}

}  // namespace holdfast
