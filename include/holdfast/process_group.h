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
// Every rank makes the same calls in the same order. Every wait has a deadline;
// a rank that fails says so at the next meeting, so the others fail with it,
// by its name, and do not wait.
// Thread-safety: one thread a group at a time. Ownership: a group shares its
// transport. Units: seconds; ranks count from 0.
// Errors: DeadlineExceeded naming the ranks that did not come, the phase and
// the file; FailedPrecondition when ranks meet in different phases; those of
// the transport.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

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
};

// Where ranks meet, for messages.
struct Meeting {
  std::string_view phase;  // "write", "commit", ...
  std::string_view file;   // the checkpoint; may be empty
};

struct ProcessGroupOptions {
  // How long a rank waits for the slowest of the others at one meeting.
  double timeout_seconds = 600;
  // Told apart from other groups on the same transport by this. All ranks give
  // the same.
  std::string name = "holdfast";
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
};

// Rank 0 collects and answers: two messages a rank and meeting.
std::unique_ptr<ProcessGroup> MakeProcessGroup(
    std::shared_ptr<ProcessTransport> transport,
    const ProcessGroupOptions& options = {});

// One process, which waits for nobody.
std::unique_ptr<ProcessGroup> SingleProcessGroup();

// `size` transports that talk through this process's memory: ranks that are
// threads, for tests.
std::vector<std::shared_ptr<ProcessTransport>> MakeThreadTransports(
    int64_t size);

}  // namespace holdfast
