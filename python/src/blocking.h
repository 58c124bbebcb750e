// Runs an engine call without the GIL, while the calling thread handles signals
// and reports progress. Exceptions of signal handlers and of the progress
// function cancel the work.
//
// Thread-safety: called with the GIL held, by any Python thread.
// Errors: StatusError with the work's own Status; nb::python_error for an
// exception of a signal handler (KeyboardInterrupt) or of the progress
// function, thrown after the work has ended.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <utility>

#include "errors.h"
#include "holdfast/options.h"

namespace holdfast::python {

// Runs `work` with `run`, to which it adds a cancel flag and, if `progress` is
// not None, a progress function.
void RunBlocking(RunOptions run, nanobind::handle progress,
                 const std::function<Status(const RunOptions&)>& work);

// Does what RunBlocking does, for work that returns a value.
template <typename T, typename Work>
T RunForResult(RunOptions run, nanobind::handle progress, const Work& work) {
  Result<T> result = InternalError("nothing has run");
  RunBlocking(std::move(run), progress, [&](const RunOptions& options) {
    result = work(options);
    return result.status();
  });
  return *std::move(result);
}

}  // namespace holdfast::python
