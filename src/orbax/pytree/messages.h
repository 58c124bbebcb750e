// Orbax's messages that name a leaf.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string>
#include <string_view>

#include "ground/tree/key_path.h"

namespace holdfast {

// Returns "(DictKey(key='a'), SequenceKey(idx=0))", as jax prints a key path.
std::string JaxKeyPathText(const KeyPath& path);

// The parts of "TypeHandler lookup failed for: type=X, keypath=..., ...".
struct LookupFailure {
  std::string_view type;
  KeyPath path;
  std::string_view restore_args;  // Python's spelling, or "None" for a save
  std::string_view value;
};
std::string LookupFailureText(const LookupFailure& failure);

// Returns the message for a path that should be absolute.
std::string NotAbsoluteText(std::string_view path);

}  // namespace holdfast
