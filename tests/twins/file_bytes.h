// Reads files of the file system.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace holdfast {

// Returns the bytes of a file, or "" if it cannot be read.
inline std::string BytesOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Returns the contents of all files below a directory, by relative path.
inline std::map<std::string, std::string> FilesBelow(const std::string& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    files[std::filesystem::relative(path, root).string()] = BytesOf(path);
  }
  return files;
}

}  // namespace holdfast
