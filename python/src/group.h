// Group: a ProcessGroup whose messages a Python object carries, as
// `_engine.ProcessGroup`.
//
// The object has `rank`, `size`, `send(to, topic, message)` and
// `receive(from_, topic, timeout_seconds)`, which gives bytes, or None when
// nothing came in time. The engine calls it from a thread of its own, with the
// GIL; long waits are asked for in short ones, so that Control-C ends them.
//
// Thread-safety: one call at a time; a second is refused. Made and destroyed
// with the GIL held.
// Errors: what the transport raises fails the call, and is raised again there.
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
  // For messages that never leave C++.
  Group(std::shared_ptr<ProcessTransport> transport,
        const ProcessGroupOptions& options);
  ~Group();

  ProcessGroup& group() { return *group_; }

  // RunForResult for work that uses the group.
  template <typename T, typename Work>
  T Run(RunOptions run, nanobind::handle progress, const Work& work) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      throw StatusError(FailedPreconditionError(
          "process group: another thread uses it; want one a call"));
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
  // Throws the transport's exception when that may be why the call failed.
  void EndCall(const Status& status);

  std::mutex mutex_;
  std::shared_ptr<PythonTransport> python_;  // null: no Python in it
  std::unique_ptr<ProcessGroup> group_;
};

// The same with and without a group.
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
