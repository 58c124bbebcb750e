// Writes torch.distributed.checkpoint: `.metadata` and `__0_<n>.distcp`, which
// dcp.load reads. With `is_megatron`, writes Megatron's torch_dist, which also
// has metadata.json and common.pt.
//
// An array is one record, or several along its first axes if it is larger than
// kDcpRecordBytesMax (or has a chunk_shape). A record is a torch.save file
// whose elements are written in place, and whose CRC is combined from the CRCs
// of the pieces. A new file is started at shard_bytes_max (5 GiB by default).
//
// Without `is_megatron`, numbers, strings, bytes, None and empty containers are
// objects as torch writes them, and planner_data has the key paths.
//
// With `is_megatron`, each object is a list with one element, the object
// "common_state" becomes common.pt, and small values are in common.pt under
// their names.
//
// The sidecar _HOLDFAST_TREE has everything that the format cannot express.
//
// Thread-safety, units, errors: as target.h.
#pragma once

#include <cstdint>
#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

inline constexpr uint64_t kDcpRecordBytesMax = uint64_t{1} << 30;

std::unique_ptr<FormatTarget> MakeDcpTarget(bool is_megatron);

}  // namespace holdfast
