// Writing torch.distributed.checkpoint: `.metadata` and `__0_<n>.distcp`, which
// dcp.load reads; with `is_megatron` as Megatron's torch_dist (metadata.json
// and common.pt).
//
// An array is one record, or several along its first axes where it is larger
// than kDcpRecordBytesMax (or as the leaf's chunk_shape says); a record is a
// file of torch.save whose elements are written in place, its CRC put together
// from those of the pieces. Files are rolled at shard_bytes_max (5 GiB where
// the options do not say).
// Plain: numbers, strings, bytes, None and empty containers are objects as
// torch writes them; planner_data has the key paths. Megatron: objects are
// lists of one; the object "common_state" becomes common.pt; small values are
// in common.pt under their names. Facts that neither can hold are in the
// sidecar _HOLDFAST_TREE.
// Thread-safety, units, errors: as target.h.
#pragma once

#include <cstdint>
#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

inline constexpr uint64_t kDcpRecordBytesMax = uint64_t{1} << 30;

std::unique_ptr<FormatTarget> MakeDcpTarget(bool is_megatron);

}  // namespace holdfast
