// Runs one engine call without the GIL while Python stays responsive: the
// calling thread handles signals and reports progress, and either may cancel
// the work.
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

// Adds the cancel flag to `run`, and a progress function if `progress` is not
// None.
void RunBlocking(RunOptions run, nanobind::handle progress,
                 const std::function<Status(const RunOptions&)>& work);

// RunBlocking for work that returns a value.
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
