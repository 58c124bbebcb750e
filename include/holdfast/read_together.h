// ReadTogether: the processes of a group read parts of one checkpoint, each its
// own, and those of one host read every stored chunk once between them.
//
//   auto group = holdfast::MakeProcessGroup(transport);
//   auto opened = holdfast::Open("/ckpt/7");
//   auto read = holdfast::ReadTogether(**opened, my_requests, *group);
//
// The ranks of a host tell each other what they want, and divide the chunks:
// each is read and decoded by one rank, straight into the memory of all that
// want some of it (shared memory, a file without a name, where that is another
// rank's). An array that several ranks want alike is in memory once for all of
// them; they may write to it, and see only their own writes. Hosts work apart,
// unless they share what they read by messages (broadcast_bytes_max).
//
// Every rank calls it, with the same checkpoint opened by itself and the same
// options; requests may differ. All succeed or all fail, by the group's
// deadline at the latest.
// Thread-safety: that of the group. Ownership: the arrays own their memory;
// that of those which other ranks filled lasts as long as the last array of
// this call that lies in the same segment. Units: elements, bytes, seconds.
// Errors: those of Checkpoint::ReadInto on any rank, on all, with the rank
// named; ResourceExhausted when memory is short; FailedPrecondition when ranks
// opened different checkpoints; those of the group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/process_group.h"

namespace holdfast HOLDFAST_EXPORT {

struct TogetherRequest {
  size_t leaf = 0;  // index into leaves(); an array or scalar
  Shape origin;     // in the leaf
  Shape shape;
  // Elements are cast as by ReadInto; absent: as stored.
  std::optional<DType> dtype;
};

struct ReadTogetherOptions {
  // thread_count 0: this rank's share of the host's CPUs.
  RunOptions run;
  // 0: every host reads what it wants from the store. Otherwise a box that
  // several hosts want is read by one of them and sent to the others through
  // the group, in messages of at most this many bytes.
  uint64_t broadcast_bytes_max = 0;
  // Ranks share memory only where this is equal. Empty: found out (one kernel,
  // one namespace of processes, one user).
  std::string host;
};

struct ReadTogetherResult {
  std::vector<Array> arrays;  // one a request, contiguous
  // This rank's numbers; stored_bytes is what it read.
  Stats stats;
  // Ranks that shared memory with this one, itself included.
  int64_t host_rank_count = 1;
  uint64_t host_stored_bytes = 0;   // read by all of them
  uint64_t group_stored_bytes = 0;  // read by all ranks
  // Why ranks of one host could not share; or empty.
  std::string note;
};

// `checkpoint` of any format.
Result<ReadTogetherResult> ReadTogether(
    const Checkpoint& checkpoint, const std::vector<TogetherRequest>& requests,
    ProcessGroup& group, const ReadTogetherOptions& options = {});

}  // namespace holdfast
