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
// Messages travel through a ProcessTransport: MPI (holdfast/mpi.h), one that
// the caller drives (the client of jax.distributed, the store of
// torch.distributed), or threads of this process.
//
// Every rank makes the same calls in the same order. A call consists of one or
// more meetings, and has the same outcome on all ranks:
//
// - Messages carry the number of the call and of the meeting in it, so a
//   message left over from one call is never mistaken for part of another.
// - A rank that fails reports the failure at the next meeting, whatever that
//   meeting is for. Rank 0 waits for all ranks, so that no rank continues; then
//   all ranks fail with the name and reason of the failed rank, and leave the
//   call: the remaining meetings of the call fail immediately with the same
//   message, and nothing is sent.
// - Every wait has a deadline. A rank that misses it sees the failure when it
//   arrives, while the others may be in their next call. A rank that gave up
//   waiting for rank 0 has left a message about it, so rank 0 goes no further
//   than the next meeting.
// - So a rank that fails in one call can still take part in later calls.
//   Nothing that can fail on only one rank may follow the last meeting of a
//   call.
// - A rank that wrongly skipped a call learns at its next call that the others
//   are elsewhere (in another phase or file), and follows them.
//
// Thread-safety: one thread per group at a time. Ownership: a group shares its
// transport. Units: seconds; ranks count from 0.
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
  // Never waits for the receiver. `topic` has not been used for this pair of
  // ranks before: UTF-8 without NUL bytes, at most 200 bytes.
  virtual Status Send(int64_t to, std::string_view topic,
                      std::string_view message) = 0;
  // DeadlineExceeded when nothing arrived in time; a timeout of 0 does not
  // wait.
  virtual Result<std::string> Receive(int64_t from, std::string_view topic,
                                      double timeout_seconds) = 0;
  // The host of the rank, for messages; "" if not known.
  virtual std::string HostOf(int64_t /*rank*/) const { return ""; }
};

// A point at which ranks meet, as named in messages.
struct Meeting {
  std::string_view phase;  // "write", "commit", ...
  std::string_view file;   // the checkpoint; may be empty
  // How long this rank waits for the slowest of the others; absent: as the
  // group.
  std::optional<double> timeout_seconds = std::nullopt;
};

struct ProcessGroupOptions {
  // How long a rank waits at one meeting for the slowest of the others.
  double timeout_seconds = 600;
  // Distinguishes this group from others on the same transport. All ranks must
  // use the same name.
  std::string name = "holdfast";
  // The number of the first call. Calls that overlap need one group each, with
  // the same name and different numbers; such a group does not follow the
  // others into the next call.
  uint64_t first_call = 0;
  bool may_follow = true;
  // The ranks of the transport that are members, ascending and including this
  // one; empty: all. They are renumbered from 0 in the group, and keep the
  // transport's numbers in messages.
  std::vector<int64_t> members = {};
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Returns the values of all ranks, by rank.
  virtual Result<std::vector<std::string>> AllGather(const Meeting& meeting,
                                                     std::string value) = 0;
  // Returns the value of rank `root`; the others' values are ignored.
  virtual Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                        std::string value) = 0;
  // Ok when all ranks pass Ok. Otherwise returns, on every rank, the code of
  // the lowest rank that failed, and a message that names all failed ranks:
  // "rank 2: No space left on device".
  virtual Status Agree(const Meeting& meeting, const Status& mine) = 0;
  // Returns a group of the given `ranks` of this group, ascending and including
  // this one, renumbered from 0. All members must create it at the same point
  // in their calls, with the same `name`, which is new in this group; no
  // message is sent.
  virtual std::unique_ptr<ProcessGroup> Subgroup(
      const std::vector<int64_t>& ranks, std::string_view name) = 0;

  // All meetings between BeginCall and EndCall belong to one call. If they
  // nest, only the outermost pair counts. A meeting outside is a call by
  // itself.
  virtual void BeginCall() = 0;
  // `mine` is the outcome on this rank. A failure that the others have not seen
  // yet is reported to them at the next meeting. For this, rank 0 waits for
  // them, at most `wait_seconds_max` and no longer than at any meeting; other
  // ranks do not wait.
  virtual void EndCall(const Status& mine, double wait_seconds_max) = 0;
  // The number of the running call, or if no call is running, of the next.
  virtual uint64_t call_number() const = 0;
  // The ranks that failed the running or the last call, ascending, in the
  // transport's numbering. Empty when no rank failed, or when ranks only failed
  // to arrive.
  virtual std::vector<int64_t> failed_ranks() const = 0;
};

// BeginCall and EndCall as a scope. Leaving the scope without End counts as a
// failure.
class GroupCall {
 public:
  // Null: does nothing. Borrows the group.
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

// A group in which rank 0 collects and answers: two messages per rank and
// meeting.
std::unique_ptr<ProcessGroup> MakeProcessGroup(
    std::shared_ptr<ProcessTransport> transport,
    const ProcessGroupOptions& options = {});

// A group of one process, which never waits.
std::unique_ptr<ProcessGroup> SingleProcessGroup();

// `size` transports that pass messages through this process's memory: for
// tests, in which ranks are threads.
std::vector<std::shared_ptr<ProcessTransport>> MakeThreadTransports(
    int64_t size);

}  // namespace holdfast
