// save_trees: saves and loads trees at the request of a Python test.
//
// Each line of standard input is a request, each line of standard output the
// answer, "ok" or "error CODE message":
//   save LINES DATA PATH [option=value]...
//   load PATH LINES DATA     (writes LINES and DATA)
// LINES and DATA are files as in tree_lines.h; every path is in hex. Options:
// format=orbax|orbax-v1 zarr=2|3 ocdbt=0|1 compression=planes|zstd|fast|none
// chunk=BYTES.

#include <holdfast/holdfast.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tree_lines.h"

namespace {

using holdfast::Result;
using holdfast::Status;
using holdfast::interop::FromHex;

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return holdfast::NotFoundError("cannot open " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Status SetOption(const std::string& option, holdfast::SaveOptions& options) {
  size_t equals = option.find('=');
  std::string name = option.substr(0, equals);
  std::string value =
      equals == std::string::npos ? "" : option.substr(equals + 1);
  if (name == "format") {
    options.format = value == "orbax-v1" ? holdfast::Format::kOrbaxV1
                                         : holdfast::Format::kOrbax;
  } else if (name == "zarr") {
    options.zarr_format = std::stoi(value);
  } else if (name == "ocdbt") {
    options.use_ocdbt = value == "1";
  } else if (name == "compression") {
    const auto compression = holdfast::CompressionFromName(value);
    if (!compression) {
      return holdfast::InvalidArgumentError("unknown compression " + value);
    }
    options.compression = *compression;
  } else if (name == "chunk") {
    options.chunk_bytes = std::stoull(value);
  } else {
    return holdfast::InvalidArgumentError("unknown option " + option);
  }
  return Status();
}

// Decodes `count` hex words.
Result<std::vector<std::string>> ReadPaths(std::istringstream& words,
                                           int count) {
  std::vector<std::string> paths;
  for (int i = 0; i < count; ++i) {
    std::string hex;
    words >> hex;
    Result<std::string> path = FromHex(hex);
    if (!path.ok()) return path.status();
    paths.push_back(*path);
  }
  return paths;
}

Status SaveTree(std::istringstream& words) {
  Result<std::vector<std::string>> paths = ReadPaths(words, 3);
  if (!paths.ok()) return paths.status();
  holdfast::SaveOptions options;
  for (std::string option; words >> option;) {
    Status status = SetOption(option, options);
    if (!status.ok()) return status;
  }
  Result<std::string> lines = ReadFile((*paths)[0]);
  if (!lines.ok()) return lines.status();
  Result<std::string> data = ReadFile((*paths)[1]);
  if (!data.ok()) return data.status();
  std::istringstream stream(*lines);
  Result<holdfast::Tree> tree = holdfast::interop::ReadTreeLines(stream, *data);
  if (!tree.ok()) return tree.status();
  return holdfast::Save((*paths)[2], *tree, options).status();
}

Status LoadTree(std::istringstream& words) {
  Result<std::vector<std::string>> paths = ReadPaths(words, 3);
  if (!paths.ok()) return paths.status();
  Result<holdfast::LoadResult> loaded = holdfast::Load((*paths)[0]);
  if (!loaded.ok()) return loaded.status();
  std::ofstream lines((*paths)[1], std::ios::binary);
  std::ofstream data((*paths)[2], std::ios::binary);
  return holdfast::interop::WriteTreeLines(loaded->tree, lines, data);
}

Status Answer(const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "save") return SaveTree(words);
  if (verb == "load") return LoadTree(words);
  return holdfast::InvalidArgumentError("unknown request " + verb);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Status status = Answer(line);
    if (status.ok()) {
      std::cout << "ok" << std::endl;
      continue;
    }
    std::string message = status.ToString();
    std::replace(message.begin(), message.end(), '\n', ' ');
    std::cout << "error " << message << std::endl;
  }
  return 0;
}
