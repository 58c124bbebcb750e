// Keeps bad_alloc, the only exception that the standard library throws here,
// from crossing a public header or ending a worker thread.
//
// Thread-safety: pure. Errors: ResourceExhausted instead of the exception.
#pragma once

#include <new>
#include <utility>

#include "holdfast/status.h"

namespace holdfast {

// Returns ResourceExhausted, constructed at program start because nothing can
// be allocated when it is needed.
const Status& OutOfMemoryError() noexcept;

// Returns fn(), or ResourceExhausted when memory runs out. `fn` returns a
// Status or a Result.
template <typename Fn>
auto CatchBadAlloc(Fn&& fn) -> decltype(fn()) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  }
}

}  // namespace holdfast
