// Group: a ProcessGroup whose messages a Python object transports, as
// `_engine.ProcessGroup`.
//
// The object has `rank`, `size`, `send(to, topic, message)` and `receive(from_,
// topic, timeout_seconds)`, which returns bytes, or None if no message arrived
// in time. The engine calls it from a separate thread that holds the GIL; it
// divides long waits into short ones, so that Control-C interrupts them.
//
// Thread-safety: one call at a time; a concurrent call is refused. Created and
// destroyed with the GIL held.
// Errors: if the transport raises an exception, the call fails and raises it
// again.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "blocking.h"
#include "errors.h"
#include "holdfast/process_group.h"

namespace holdfast::python {

class PythonTransport;

class Group {
 public:
  Group(nanobind::object transport, const ProcessGroupOptions& options);
  // Makes a group whose transport is implemented in C++.
  Group(std::shared_ptr<ProcessTransport> transport,
        const ProcessGroupOptions& options);
  ~Group();

  ProcessGroup& group() { return *group_; }

  // Does what RunForResult does, for work that uses the group.
  template <typename T, typename Work>
  T Run(RunOptions run, nanobind::handle progress, const Work& work) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      throw StatusError(
          FailedPreconditionError("process group: another thread is using it; "
                                  "want one group per thread"));
    }
    try {
      T result = RunForResult<T>(std::move(run), progress,
                                 [&](const RunOptions& options) {
                                   SetCancel(options.cancel);
                                   return work(options);
                                 });
      EndCall(Status());
      return result;
    } catch (const StatusError& error) {
      EndCall(error.status());
      throw;
    } catch (...) {
      EndCall(Status());
      throw;
    }
  }

 private:
  void SetCancel(const std::atomic<bool>* cancel);
  // Throws the transport's exception if that may be why the call failed.
  void EndCall(const Status& status);

  std::mutex mutex_;
  std::shared_ptr<PythonTransport> python_;  // null for a transport in C++
  std::unique_ptr<ProcessGroup> group_;
};

// Runs `work` as group->Run does; without a group, as RunForResult does.
template <typename T, typename Work>
T RunInGroup(Group* group, RunOptions run, nanobind::handle progress,
             const Work& work) {
  if (group != nullptr) return group->Run<T>(std::move(run), progress, work);
  return RunForResult<T>(std::move(run), progress, work);
}

inline ProcessGroup* ProcessGroupOf(Group* group) {
  return group == nullptr ? nullptr : &group->group();
}

}  // namespace holdfast::python
