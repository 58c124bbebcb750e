// Reads and fills the C API's structs for callers of any version: each struct
// begins with the size that it has in the caller's header.
//
// Thread-safety: pure functions. Errors: InvalidArgument for a size that no
// version has, Unimplemented for a member that this version does not know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

inline Status CheckStructSize(size_t struct_bytes) {
  if (struct_bytes >= 2 * sizeof(size_t)) return Status();
  return InvalidArgumentError("struct_size: too small (got " +
                              std::to_string(struct_bytes) +
                              "); set it to the size of the struct");
}

// Returns the caller's options, with zeros for members that the caller's
// version lacks; all zeros for a null pointer.
template <typename Options>
Result<Options> ReadOptions(const Options* options) {
  Options copy{};
  copy.struct_size = sizeof copy;
  if (options == nullptr) return copy;
  const size_t given = options->struct_size;
  if (Status status = CheckStructSize(given); !status.ok()) return status;
  const auto* bytes = reinterpret_cast<const char*>(options);
  if (given > sizeof copy && std::any_of(bytes + sizeof copy, bytes + given,
                                         [](char byte) { return byte != 0; })) {
    return UnimplementedError("options of a newer holdfast (got struct_size " +
                              std::to_string(given) + ", want at most " +
                              std::to_string(sizeof copy) + ")");
  }
  std::memcpy(&copy, options, std::min(given, sizeof copy));
  return copy;
}

// Copies as much of `info` as the caller's version has, and zeros the members
// that only a newer version has.
template <typename Info>
Status FillInfo(Info info, Info* out) {
  const size_t given = out->struct_size;
  if (Status status = CheckStructSize(given); !status.ok()) return status;
  info.struct_size = given;
  std::memset(static_cast<void*>(out), 0, given);
  std::memcpy(out, &info, std::min(given, sizeof info));
  return Status();
}

}  // namespace holdfast
