// This machine's name, as gethostname reports it, or "unknown".
//
// Thread-safety: any thread. Errors: none.
#pragma once

#include <unistd.h>

#include <string>

namespace holdfast {

inline std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace holdfast
