// `checkpoint`: the msgpack file in which Orbax up to 0.5.15 kept small leaves
// and the structure of an item (flax's msgpack dialect).
//
// Extension types: 1 array [shape, dtype name, bytes], 2 Python complex,
// 3 numpy scalar (as 1), 4 tuple. An array beyond 1 GiB is a dict with
// "__msgpack_chunked_array__". The strings "PLACEHOLDER://name" and
// "AGGREGATED://name" stand for a parameter stored elsewhere.
// Source: orbax-checkpoint 0.12.8, msgpack_utils.py and utils.py.
// Thread-safety: pure function.
// Ownership: the Tree owns copies of all values.
// Errors: DataLoss with the byte offset, counted within the innermost
// extension; Unimplemented for an unknown dtype or extension type.
#pragma once

#include <string_view>

#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// Parses the file. Dicts keep its order (Flatten sorts them). Arrays are
// kNumpy; Python ints beyond int64 become Python scalars of uint64; references
// become leaves of kind kReference.
Result<Tree> ParseAggregate(std::string_view file);

}  // namespace holdfast
