// ProcessGroup: the processes that work on one checkpoint together, and the few
// small messages they exchange: that all have arrived, whether all are well.
//
//   auto group = holdfast::MakeProcessGroup(transport, {.timeout_seconds =
//   60}); holdfast::SaveOptions options; options.group = group.get();
//   holdfast::Save("/ckpt/7", my_part, options);  // every rank calls it
//
// Messages travel through a ProcessTransport: MPI (holdfast/mpi.h), one that
// the caller drives (the client of jax.distributed, the store of
// torch.distributed), or threads of this process.
//
// Every rank makes the same calls in the same order. A call is some meetings,
// and it ends as one:
//
// - Messages carry the number of the call and of the meeting in it, so nothing
//   that is left of one call is ever taken for a part of another.
// - A rank that fails says so at the next meeting, whatever the others meet
//   there for. Rank 0 waits for all, so that nobody works on, and then all fail
//   by its name and reason, and leave the call: the rest of its meetings fail
//   at once with the same words, and nothing is sent.
// - Every wait has a deadline. A rank that misses it finds the failure when it
//   comes, while the others may be in their next call. A rank that gave up
//   waiting for rank 0 has left word of it: rank 0 goes no further than the
//   next meeting.
// - So a call in which something failed costs a rank no later call. Nothing
//   that only one rank can fail in may follow the last meeting of a call.
// - A rank that left a call out, though it should not, learns at its next one
//   that the others were elsewhere (another phase or file), and follows them.
//
// Thread-safety: one thread a group at a time. Ownership: a group shares its
// transport. Units: seconds; ranks count from 0.
// Errors: DeadlineExceeded naming the ranks that did not come, the phase and
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

// How one rank's messages reach another.
//
// Thread-safety: one thread at a time; the ranks are elsewhere.
class ProcessTransport {
 public:
  virtual ~ProcessTransport() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;  // at least 1
  // Never waits for the receiver. `topic` is new for this pair of ranks: UTF-8
  // without NUL bytes, of at most 200 bytes.
  virtual Status Send(int64_t to, std::string_view topic,
                      std::string_view message) = 0;
  // DeadlineExceeded when nothing came in time; 0: look only.
  virtual Result<std::string> Receive(int64_t from, std::string_view topic,
                                      double timeout_seconds) = 0;
  // Where the rank is, for messages; "" where that is not known.
  virtual std::string HostOf(int64_t /*rank*/) const { return ""; }
};

// The point where ranks meet, for messages.
struct Meeting {
  std::string_view phase;  // "write", "commit", ...
  std::string_view file;   // the checkpoint; may be empty
  // How long this rank waits for the slowest of the others; none: as the group.
  std::optional<double> timeout_seconds = std::nullopt;
};

struct ProcessGroupOptions {
  // At one meeting a rank waits this long for the slowest of the others.
  double timeout_seconds = 600;
  // Told apart from other groups on the same transport by this. All ranks give
  // the same.
  std::string name = "holdfast";
  // The number of the first call. Calls that overlap need a group each, of one
  // name and with numbers of their own; such a group does not follow the others
  // into the next call.
  uint64_t first_call = 0;
  bool may_follow = true;
  // The ranks of the transport that are members, ascending and with this one
  // among them; none: all. They count from 0 in the group, and keep the
  // transport's numbers in messages.
  std::vector<int64_t> members = {};
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // The values of all ranks, by rank.
  virtual Result<std::vector<std::string>> AllGather(const Meeting& meeting,
                                                     std::string value) = 0;
  // The value of rank `root`; the others' are ignored.
  virtual Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                        std::string value) = 0;
  // Ok when all ranks bring Ok. Otherwise, on every rank, the code of the
  // lowest rank that failed, and a message that names all that did:
  // "rank 2: No space left on device".
  virtual Status Agree(const Meeting& meeting, const Status& mine) = 0;
  // `ranks` of this group, ascending and with this one among them, as a group
  // that numbers them from 0. All members make it at the same place in their
  // calls, with the same `name`, new in this group; nothing is sent for it.
  virtual std::unique_ptr<ProcessGroup> Subgroup(
      const std::vector<int64_t>& ranks, std::string_view name) = 0;

  // All meetings between the two are one call. They nest: the outermost counts.
  // A meeting outside of them is a call by itself.
  virtual void BeginCall() = 0;
  // `mine` is the outcome here. A failure that the others do not know yet is
  // reported to them at the next meeting: rank 0 waits for them,
  // `wait_seconds_max` at most and no longer than at any meeting; other ranks
  // do not wait.
  virtual void EndCall(const Status& mine, double wait_seconds_max) = 0;
  // The number of the running call, or else of the next.
  virtual uint64_t call_number() const = 0;
  // The ranks that failed the running call, or else the last one, ascending, by
  // this process's transport. Empty when no rank failed, or when some only did
  // not come.
  virtual std::vector<int64_t> failed_ranks() const = 0;
};

// BeginCall and EndCall as a scope. A scope that is left without End is a
// failure.
class GroupCall {
 public:
  // Null: does nothing. Borrows the group.
  explicit GroupCall(ProcessGroup* group);
  GroupCall(GroupCall&& other) noexcept;
  GroupCall& operator=(GroupCall&&) = delete;
  ~GroupCall();

  // Again: does nothing.
  void End(const Status& mine);

 private:
  ProcessGroup* group_;
};

// The result of `work`, a Status or a Result, as one call of the group.
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

// Rank 0 collects and answers: two messages a rank and meeting.
std::unique_ptr<ProcessGroup> MakeProcessGroup(
    std::shared_ptr<ProcessTransport> transport,
    const ProcessGroupOptions& options = {});

// A group of one process, which never waits.
std::unique_ptr<ProcessGroup> SingleProcessGroup();

// `size` transports that talk through this process's memory: ranks that are
// threads, for tests.
std::vector<std::shared_ptr<ProcessTransport>> MakeThreadTransports(
    int64_t size);

}  // namespace holdfast
