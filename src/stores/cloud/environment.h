// Access to what the stores' own tools read on the machine: environment
// variables and small files.
//
// Thread-safety: reads the environment. Units: bytes. Errors: errno values.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace holdfast {

// Returns "" for a variable that is not set.
using Environment = std::function<std::string(const std::string&)>;
Environment ProcessEnvironment();

// Reads a complete file. Returns 0, EFBIG if the file is longer than
// `byte_count_max`, or the errno of a failed read.
int ReadSmallFile(const std::string& path, size_t byte_count_max,
                  std::string& text);

}  // namespace holdfast
