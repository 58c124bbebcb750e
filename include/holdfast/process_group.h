// ProcessGroup: the processes that work on one checkpoint together, and the few
// small messages that they exchange: whether all have arrived, and whether any
// has failed.
//
//   auto group =
//       holdfast::MakeProcessGroup(transport, {.timeout_seconds = 60});
//   holdfast::SaveOptions options;
//   options.group = group.get();
//   holdfast::Save("/ckpt/7", my_part, options);  // every rank calls it
//
// A ProcessTransport carries the messages: MPI (holdfast/mpi.h), the caller's
// own (over jax.distributed's client or torch.distributed's store), or, for
// ranks that are threads, this process's memory.
//
// Every rank makes the same calls in the same order. In a call, ranks exchange
// messages at one or more meetings: points that no rank passes before all have
// arrived. A call has the same outcome on all ranks:
//
// - Messages carry the number of the call and of the meeting in it, so a
//   message left over from one call is never mistaken for part of another.
// - A rank that fails reports the failure at the next meeting, whatever that
//   meeting is for. Rank 0 waits for all ranks, so that no rank continues; then
//   all ranks fail with the name and reason of the failed rank, and leave the
//   call: the remaining meetings of the call fail immediately with the same
//   message, and nothing is sent.
// - Every wait has a deadline. A rank that arrives too late gets the failure
//   when it arrives; the other ranks may be in their next call by then. A rank
//   that gives up waiting for rank 0 leaves a message for it, so that rank 0
//   also fails at its next meeting.
// - So a rank that fails in one call can still take part in later calls. After
//   the last meeting of a call, nothing may be done that can fail on only one
//   rank.
// - A rank that wrongly skipped a call learns at its next call that the others
//   are elsewhere (in another phase or file), and follows them.
//
// Thread-safety: one thread per group at a time.
// Ownership: a group shares its transport.
// Units: seconds; ranks count from 0.
// Errors: DeadlineExceeded naming the ranks that did not arrive, the phase and
// the file; FailedPrecondition when ranks meet in different phases; those of
// the transport.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// Carries messages from one rank to another.
//
// Thread-safety: one thread at a time on each rank.
class ProcessTransport {
 public:
  virtual ~ProcessTransport() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;  // at least 1
  // Sends without waiting for the receiver. REQUIRES: `topic` is UTF-8 without
  // NUL bytes, at most 200 bytes, and was not used for this pair of ranks
  // before.
  virtual Status Send(int64_t to, std::string_view topic,
                      std::string_view message) = 0;
  // Returns the message. DeadlineExceeded when it does not arrive in time; a
  // timeout of 0 does not wait.
  virtual Result<std::string> Receive(int64_t from, std::string_view topic,
                                      double timeout_seconds) = 0;
  // Returns the rank's host name, for error messages; "" if not known.
  virtual std::string HostOf(int64_t /*rank*/) const { return ""; }
};

// A point at which ranks wait for each other, as error messages name it.
struct Meeting {
  std::string_view phase;  // "write", "commit", ...
  std::string_view file;   // the checkpoint; may be empty
  // How long this rank waits for the slowest other rank. Absent: the group's
  // timeout.
  std::optional<double> timeout_seconds = std::nullopt;
};

struct ProcessGroupOptions {
  // How long a rank waits at one meeting for the slowest other rank.
  double timeout_seconds = 600;
  // Distinguishes this group from others on the same transport. All ranks must
  // use the same name.
  std::string name = "holdfast";
  // The number of the first call. Each of several overlapping calls needs its
  // own group; these groups have the same name and different numbers. For such
  // a group, set may_follow to false: a rank that finds the others in a later
  // call does not follow them there.
  uint64_t first_call = 0;
  bool may_follow = true;
  // The transport's ranks that are members, ascending and including this rank;
  // empty: all. In the group they are renumbered from 0; error messages keep
  // the transport's numbers.
  std::vector<int64_t> members = {};
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Returns the values that all ranks pass, by rank.
  virtual Result<std::vector<std::string>> AllGather(const Meeting& meeting,
                                                     std::string value) = 0;
  // Returns the value that rank `root` passes; other ranks' values are ignored.
  virtual Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                        std::string value) = 0;
  // Returns ok if all ranks pass ok. Otherwise returns, on every rank, the code
  // of the lowest rank that failed, and a message that names all failed ranks:
  // "rank 2: No space left on device".
  virtual Status Agree(const Meeting& meeting, const Status& mine) = 0;
  // Returns a group of the given `ranks` of this group, ascending and including
  // this rank; they are renumbered from 0. Sends no message. All members must
  // call this at the same point in their calls, with the same `name`, which
  // must be new in this group.
  virtual std::unique_ptr<ProcessGroup> Subgroup(
      const std::vector<int64_t>& ranks, std::string_view name) = 0;

  // Begins a call: all meetings until EndCall belong to it. Only the outermost
  // of nested pairs counts. A meeting outside of any pair is a call by itself.
  virtual void BeginCall() = 0;
  // Ends the call, with `mine` as this rank's outcome. If that is a failure
  // that the other ranks have not seen yet, they get it at their next meeting.
  // For this, rank 0 waits for them, at most `wait_seconds_max` and no longer
  // than at any meeting; other ranks do not wait.
  virtual void EndCall(const Status& mine, double wait_seconds_max) = 0;
  // Returns the number of the running call, or of the next call if none is
  // running.
  virtual uint64_t call_number() const = 0;
  // Returns the ranks that failed in the running or the last call, ascending,
  // in the transport's numbering. Empty when no rank failed, or when ranks only
  // failed to arrive.
  virtual std::vector<int64_t> failed_ranks() const = 0;
};

// BeginCall and EndCall as a scope. Leaving the scope without End counts as a
// failure.
class GroupCall {
 public:
  // Borrows the group. With a null group, this object does nothing.
  explicit GroupCall(ProcessGroup* group);
  GroupCall(GroupCall&& other) noexcept;
  GroupCall& operator=(GroupCall&&) = delete;
  ~GroupCall();

  // Does nothing the second time.
  void End(const Status& mine);

 private:
  ProcessGroup* group_;
};

// Runs `work`, which returns a Status or a Result, as one call of the group.
template <typename Work>
auto InGroupCall(ProcessGroup* group, const Work& work) {
  GroupCall call(group);
  auto result = work();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    call.End(result);
  } else {
    call.End(result.status());
  }
  return result;
}

// Makes a group in which, at each meeting, every rank sends a message to rank 0
// and rank 0 sends back an answer.
std::unique_ptr<ProcessGroup> MakeProcessGroup(
    std::shared_ptr<ProcessTransport> transport,
    const ProcessGroupOptions& options = {});

// Makes a group of one process, which never waits.
std::unique_ptr<ProcessGroup> SingleProcessGroup();

// Makes `size` transports that pass messages through this process's memory: for
// tests in which ranks are threads.
std::vector<std::shared_ptr<ProcessTransport>> MakeThreadTransports(
    int64_t size);

}  // namespace holdfast
