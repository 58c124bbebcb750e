#include "group.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "gil.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using Clock = std::chrono::steady_clock;

// A wait is divided into pieces, whose length grows from the first to the
// second constant. Short pieces let a cancelled call end soon; long pieces ask
// the transport's store less often.
constexpr double kSliceSecondsMin = 0.05;
constexpr double kSliceSecondsMax = 1;
// Longer waits count as infinite.
constexpr double kWaitSecondsMax = 1e9;

}  // namespace

class PythonTransport : public ProcessTransport {
 public:
  explicit PythonTransport(nb::object transport)
      : transport_(std::move(transport)),
        rank_(nb::cast<int64_t>(transport_.attr("rank"))),
        size_(nb::cast<int64_t>(transport_.attr("size"))) {
    if (size_ < 1 || rank_ < 0 || rank_ >= size_) {
      ThrowValueError("process group: got rank " + std::to_string(rank_) +
                      " of " + std::to_string(size_) +
                      ", want 0 <= rank < size");
    }
  }

  ~PythonTransport() override {
    if (IsPythonEnding()) {  // the objects end with the process
      (void)transport_.release();
      (void)raised_.release();
      return;
    }
    const GilAcquire acquire;
    transport_.reset();
    raised_.reset();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }

  Status Send(int64_t to, std::string_view topic,
              std::string_view message) override {
    if (IsPythonEnding()) return EndingError();
    const GilAcquire acquire;
    return Guarded([&] {
      transport_.attr("send")(to, nb::str(topic.data(), topic.size()),
                              nb::bytes(message.data(), message.size()));
    });
  }

  Result<std::string> Receive(int64_t from, std::string_view topic,
                              double timeout_seconds) override {
    const auto start = Clock::now();
    const double wait_seconds =
        std::clamp(timeout_seconds, 0., kWaitSecondsMax);
    for (double slice = kSliceSecondsMin;;
         slice = std::min(2 * slice, kSliceSecondsMax)) {
      const double waited_seconds =
          std::chrono::duration<double>(Clock::now() - start).count();
      const double left_seconds = std::max(wait_seconds - waited_seconds, 0.);
      const bool is_last = left_seconds <= slice;
      Result<std::optional<std::string>> message =
          Ask(from, topic, std::min(left_seconds, slice));
      if (!message.ok()) return message.status();
      if (*message) return **std::move(message);
      if (IsCancelled()) return CancelledError("cancelled");
      if (!is_last) continue;
      return DeadlineExceededError("nothing from rank " + std::to_string(from) +
                                   " in " + std::to_string(timeout_seconds) +
                                   " s");
    }
  }

  // Sets the flag that, when true, ends a wait. Borrowed; null: no flag.
  void SetCancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }

  // Returns and clears the first exception that the transport raised since the
  // last call; null if it did not raise any. Needs the GIL.
  nb::object TakeRaised() { return std::exchange(raised_, nb::object()); }

 private:
  bool IsCancelled() const { return cancel_ != nullptr && *cancel_; }

  Result<std::optional<std::string>> Ask(int64_t from, std::string_view topic,
                                         double timeout_seconds) {
    if (IsPythonEnding()) return EndingError();
    const GilAcquire acquire;
    std::optional<std::string> message;
    const Status status = Guarded([&] {
      const nb::object got = transport_.attr("receive")(
          from, nb::str(topic.data(), topic.size()), timeout_seconds);
      if (got.is_none()) return;
      const auto bytes = nb::cast<nb::bytes>(got);
      message.emplace(bytes.c_str(), bytes.size());
    });
    if (!status.ok()) return status;
    return message;
  }

  static Status EndingError() {
    return UnavailableError("process group: the program is ending");
  }

  template <typename Call>
  Status Guarded(const Call& call) {
    try {
      StayingAtTheEnd(call);
      return Status();
    } catch (nb::python_error& error) {
      const nb::object raised = nb::borrow(error.value());
      if (!raised_.is_valid()) raised_ = raised;
      return StatusOf(raised);
    } catch (const nb::cast_error&) {
      return InternalError(
          "process group: the transport's receive did not return bytes");
    }
  }

  nb::object transport_;
  const int64_t rank_;
  const int64_t size_;
  nb::object raised_;
  const std::atomic<bool>* cancel_ = nullptr;
};

Group::Group(nb::object transport, const ProcessGroupOptions& options)
    : python_(std::make_shared<PythonTransport>(std::move(transport))),
      group_(MakeProcessGroup(python_, options)) {}

Group::Group(std::shared_ptr<ProcessTransport> transport,
             const ProcessGroupOptions& options)
    : group_(MakeProcessGroup(std::move(transport), options)) {}

Group::~Group() = default;

void Group::SetCancel(const std::atomic<bool>* cancel) {
  if (python_ != nullptr) python_->SetCancel(cancel);
}

void Group::EndCall(const Status& status) {
  if (python_ == nullptr) return;
  python_->SetCancel(nullptr);
  const nb::object raised = python_->TakeRaised();
  if (status.ok() || !raised.is_valid()) return;
  if (nb::hasattr(raised, "add_note")) {  // since Python 3.11
    raised.attr("add_note")(ToPythonText(status.message()));
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())),
                  raised.ptr());
  nb::raise_python_error();
}

}  // namespace holdfast::python
