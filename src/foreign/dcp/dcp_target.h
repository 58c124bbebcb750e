// Writes torch.distributed.checkpoint: `.metadata` and `__0_<n>.distcp`, which
// dcp.load reads; with `is_megatron`, Megatron's torch_dist (metadata.json and
// common.pt, too).
//
// An array is one record, or several along its first axes if it is larger than
// kDcpRecordBytesMax (or has a chunk_shape). A record is a file of torch.save
// whose elements are written in place, and whose CRC is combined from the CRCs
// of the pieces. A new file is started at shard_bytes_max (5 GiB by default).
// Plain: numbers, strings, bytes, None and empty containers are objects as
// torch writes them; planner_data has the key paths. Megatron: objects are
// lists of one; the object "common_state" becomes common.pt; small values are
// in common.pt under their names. The sidecar _HOLDFAST_TREE has everything
// that the format cannot express.
// Thread-safety, units, errors: as target.h.
#pragma once

#include <cstdint>
#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

inline constexpr uint64_t kDcpRecordBytesMax = uint64_t{1} << 30;

std::unique_ptr<FormatTarget> MakeDcpTarget(bool is_megatron);

}  // namespace holdfast
