#include "blocking.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "gil.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// A signal or new progress is noticed within this time.
constexpr std::chrono::milliseconds kPollInterval{20};

struct PhaseProgress {
  std::string phase;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

// Shared by the working and the waiting thread.
class Monitor {
 public:
  void Report(const Progress& progress) {
    const std::lock_guard lock(mutex_);
    if (pending_.empty() || pending_.back().phase != progress.phase) {
      pending_.push_back({std::string(progress.phase), 0, 0});
    }
    pending_.back().done_bytes = progress.done_bytes;
    pending_.back().total_bytes = progress.total_bytes;
  }

  void Finish(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    done_ = true;
    changed_.notify_all();
  }

  // Returns true once the work has ended.
  bool WaitALittle() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPollInterval, [this] { return done_; });
  }
  void WaitForEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }

  std::vector<PhaseProgress> TakeProgress() {
    const std::lock_guard lock(mutex_);
    return std::exchange(pending_, {});
  }

  Status status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  std::atomic<bool> cancel = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Status status_;
  std::vector<PhaseProgress> pending_;
};

// Makes the status at the first call, while there is memory for it.
const Status& NoMemory() {
  static const auto* const status =
      new Status(ResourceExhaustedError("the process is out of memory"));
  return *status;
}

// Runs `work`, and converts exceptions of the standard library to a Status,
// because exceptions must not leave the thread.
Status RunGuarded(const std::function<Status(const RunOptions&)>& work,
                  const RunOptions& run) noexcept {
  try {
    return work(run);
  } catch (const std::bad_alloc&) {
    return NoMemory();
  } catch (const std::exception& error) {
    return InternalError(error.what());
  } catch (...) {
    return InternalError("unknown exception");
  }
}

bool IsMainThread() {
  return StayingAtTheEnd([] {
    const nb::object main_thread =
        nb::module_::import_("threading").attr("main_thread")();
    const nb::object ident = main_thread.attr("ident");
    return PyLong_AsUnsignedLong(ident.ptr()) == PyThread_get_thread_ident();
  });
}

// Returns false, with a Python error set, if the function raised.
bool CallProgress(nb::handle progress, Monitor& monitor) {
  for (const PhaseProgress& step : monitor.TakeProgress()) {
    PyObject* const result = StayingAtTheEnd([&] {
      return PyObject_CallFunction(
          progress.ptr(), "sKK", step.phase.c_str(),
          static_cast<unsigned long long>(step.done_bytes),
          static_cast<unsigned long long>(step.total_bytes));
    });
    if (result == nullptr) return false;
    Py_DECREF(result);
  }
  return true;
}

// Waits until the work ends. Throws exceptions that signal handlers and
// `progress` raise.
void WaitAndPoll(nb::handle progress, Monitor& monitor) {
  const bool wants_progress = !progress.is_none();
  bool done = false;
  while (!done) {
    {
      const GilRelease release;
      done = monitor.WaitALittle();
    }
    if (PyErr_CheckSignals() == 0 &&
        (!wants_progress || CallProgress(progress, monitor))) {
      continue;
    }
    nb::python_error raised;  // takes the current error
    if (!done) {
      monitor.cancel = true;
      const GilRelease release;
      monitor.WaitForEnd();
    }
    throw raised;
  }
}

}  // namespace

void RunBlocking(RunOptions run, nb::handle progress,
                 const std::function<Status(const RunOptions&)>& work) {
  (void)NoMemory();
  Monitor monitor;
  run.cancel = &monitor.cancel;
  if (!progress.is_none()) {
    run.progress = [&monitor](const Progress& p) { monitor.Report(p); };
  } else if (!IsMainThread()) {
    // Only the main thread handles signals, so there is nothing to poll for.
    Status status;
    {
      const GilRelease release;
      status = RunGuarded(work, run);
    }
    return Check(std::move(status));
  }
  const auto run_all = [&] { monitor.Finish(RunGuarded(work, run)); };
  std::thread worker;
  try {
    worker = std::thread(run_all);
  } catch (const std::exception&) {
    // No thread could be started, so signals are handled, and progress is
    // reported, only after the work.
    const GilRelease release;
    run_all();
  }
  const auto join = [&worker] {
    const GilRelease release;
    if (worker.joinable()) worker.join();
  };
  try {
    WaitAndPoll(progress, monitor);
  } catch (...) {
    join();
    throw;
  }
  join();
  Check(monitor.status());
}

}  // namespace holdfast::python
