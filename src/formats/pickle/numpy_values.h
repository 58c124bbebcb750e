// numpy's arrays and scalars, and bytes, as pickles of all protocols have them.
//
// Thread-safety: pure functions. Ownership: results own their memory.
// Errors: DataLoss (does not fit together), Unimplemented (a dtype that is not
// read: objects, structures, dates).
#pragma once

#include <string>
#include <vector>

#include "formats/pickle/program.h"
#include "holdfast/status.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

// bytes, a bytearray, or _codecs.encode(text, "latin1").
Result<std::string> BytesOfNode(const Program& program, const Node& node);
// The arguments of _codecs.encode, bytes() or bytearray(): bytes, or a text
// and "latin1".
Result<std::string> BytesOfArgs(const Program& program,
                                const std::vector<NodeIndex>& args);

// REQUIRES: a kObject made by numpy's _reconstruct, _frombuffer or scalar.
Result<PickleValue> NumpyValueOf(const Program& program, const Node& node);

}  // namespace holdfast::pickle
