// Tree lines: a tree as plain text and a file of raw array bytes, so that
// Python and C++ can exchange trees without a complex parser.
//
// The lines are in preorder. Names and strings are the hex of their UTF-8, or
// "-" if empty:
//   dict N | namedtuple N MODULE NAME   then N times: key HEX, child
//   list N | tuple N                    then N children
//   array numpy|jax DTYPE OFFSET RANK EXTENT...   bytes at OFFSET of the data
//   scalar python|numpy DTYPE HEX
//   string HEX | bytes HEX | none | placeholder
// Array bytes are in C order, little endian, at least one byte per element.
//
// Thread-safety: pure functions.
// Ownership: arrays read by ReadTreeLines borrow `data`; the caller keeps it
// alive as long as the tree.
// Errors: InvalidArgument, with the wrong line in the message.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast::interop {

Result<Tree> ReadTreeLines(std::istream& lines, std::string_view data);

// Writes the lines of `tree`, and its arrays' bytes to `data`.
Status WriteTreeLines(const Tree& tree, std::ostream& lines,
                      std::ostream& data);

// Returns the bytes in lower-case hex, or "-" for an empty string. FromHex is
// the reverse.
std::string ToHex(std::string_view bytes);
Result<std::string> FromHex(std::string_view hex);

}  // namespace holdfast::interop
