// Reads a file of the file system.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace holdfast {

// "" for a file that cannot be read.
inline std::string BytesOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace holdfast
