// Keeps the one exception that the standard library throws on us, bad_alloc,
// from crossing a public header or ending a worker thread.
//
// Thread-safety: pure. Errors: ResourceExhausted instead of the exception.
#pragma once

#include <new>
#include <utility>

#include "holdfast/status.h"

namespace holdfast {

// ResourceExhausted, made when the program starts, because nothing can be
// allocated any more when it is needed.
const Status& OutOfMemoryError() noexcept;

// fn(), or ResourceExhausted when memory ran out. `fn` returns a Status or a
// Result.
template <typename Fn>
auto CatchBadAlloc(Fn&& fn) -> decltype(fn()) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  }
}

}  // namespace holdfast
