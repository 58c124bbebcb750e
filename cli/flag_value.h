// Makes the error for a value that an option does not accept.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast::cli {

inline constexpr int64_t kCountMax = std::numeric_limits<int64_t>::max();

inline Status BadValue(std::string_view flag, std::string_view value,
                       std::string_view wanted) {
  return InvalidArgumentError("--" + std::string(flag) + ": got '" +
                              std::string(value) + "', want " +
                              std::string(wanted));
}

}  // namespace holdfast::cli
