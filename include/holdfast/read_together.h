// ReadTogether: each process of a group reads its own parts of one checkpoint,
// and the processes of one host together read every stored chunk only once.
//
//   auto group = holdfast::MakeProcessGroup(transport);
//   auto opened = holdfast::Open("/ckpt/7");
//   auto read = holdfast::ReadTogether(**opened, my_requests, *group);
//
// The ranks of a host exchange their requests and divide the chunks among
// themselves. The rank that gets a chunk reads and decodes it directly into the
// memory of all ranks that need it; memory of another rank is shared memory (a
// file without a name). If several ranks make the same request, they share one
// copy of the array; each may write to it, and sees only its own writes. Each
// host reads for itself, unless hosts send each other the boxes that they read
// (broadcast_bytes_max).
//
// Every rank calls ReadTogether with the same checkpoint, which it has opened
// itself, and the same options; requests may differ. All ranks succeed or all
// fail, by the group's deadline at the latest.
// Thread-safety: that of the group.
// Ownership: the arrays own their memory. Arrays in shared memory may share a
// segment, which is freed with the last of them.
// Units: elements, bytes, seconds.
// Errors: an error of Checkpoint::ReadInto on any rank is returned on all
// ranks, with that rank named; ResourceExhausted when memory is short;
// FailedPrecondition when ranks opened different checkpoints; those of the
// group.
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
  // Elements are cast to this dtype, as in ReadInto. Absent: the stored dtype.
  std::optional<DType> dtype;
};

struct ReadTogetherOptions {
  // threads 0: this rank's share of the host's CPUs.
  RunOptions run;
  // If 0, every host reads what it needs from the store. Otherwise a box that
  // several hosts need is read by one of them and sent to the others through
  // the group, in messages of at most this many bytes.
  uint64_t broadcast_bytes_max = 0;
  // Ranks with the same `host` share memory. If empty, ranks share memory if
  // they have the same kernel, PID namespace and user.
  std::string host;
};

struct ReadTogetherResult {
  std::vector<Array> arrays;  // one per request, contiguous
  // This rank's statistics; stored_bytes counts what it read.
  Stats stats;
  // Ranks that shared memory with this one, including itself.
  int64_t host_rank_count = 1;
  uint64_t host_stored_bytes = 0;   // read by these ranks
  uint64_t group_stored_bytes = 0;  // read by all ranks of the group
  // Why ranks of one host could not share memory; otherwise empty.
  std::string note;
};

// Reads `requests` from a checkpoint of any format.
Result<ReadTogetherResult> ReadTogether(
    const Checkpoint& checkpoint, const std::vector<TogetherRequest>& requests,
    ProcessGroup& group, const ReadTogetherOptions& options = {});

}  // namespace holdfast
