// Reads a file of the file system.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace holdfast {

// Returns the bytes of a file, or "" if it cannot be read.
inline std::string BytesOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace holdfast
