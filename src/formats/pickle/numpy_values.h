// Reads numpy's arrays and scalars, and bytes, as they appear in pickles of all
// protocols.
//
// Thread-safety: pure functions. Ownership: results own their memory.
// Errors: DataLoss (parts that do not fit together), Unimplemented (a dtype
// that is not supported: objects, structures, dates).
#pragma once

#include <string>
#include <vector>

#include "formats/pickle/program.h"
#include "holdfast/status.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

// Accepts bytes, a bytearray, or _codecs.encode(text, "latin1").
Result<std::string> BytesOfNode(const Program& program, const Node& node);
// Accepts the arguments of _codecs.encode, bytes() or bytearray(): bytes, or a
// string and "latin1".
Result<std::string> BytesOfArgs(const Program& program,
                                const std::vector<NodeIndex>& args);

// REQUIRES: a kObject made by numpy's _reconstruct, _frombuffer or scalar.
Result<PickleValue> NumpyValueOf(const Program& program, const Node& node);

}  // namespace holdfast::pickle
