// The parts of the machine that the stores' own tools read: variables and small
// files.
//
// Thread-safety: reads the environment. Units: bytes. Errors: errno's numbers.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace holdfast {

// "" for a variable that is not set.
using Environment = std::function<std::string(const std::string&)>;
Environment ProcessEnvironment();

// All of a file. Returns 0; EFBIG where it is longer than `byte_count_max`; or
// why it cannot be read.
int ReadSmallFile(const std::string& path, size_t byte_count_max,
                  std::string& text);

}  // namespace holdfast
