// The golden Megatron corpus, unpacked once a process. For tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "storage/scratch_directory.h"

namespace holdfast {

inline const std::string& MegatronCorpusRoot() {
  static const ScratchDirectory* const scratch = [] {
    auto* directory = new ScratchDirectory;
    const std::string command = "tar -xJf " HOLDFAST_SOURCE_DIR
                                "/tests/golden/megatron/open.tar.xz -C " +
                                directory->path();
    if (std::system(command.c_str()) != 0) std::abort();
    std::atexit([] { std::filesystem::remove_all(MegatronCorpusRoot()); });
    return directory;
  }();
  static const std::string root = *scratch / "open";
  return root;
}

// expected.json of one of its checkpoints.
inline nlohmann::json MegatronExpected(const std::string& name) {
  return nlohmann::json::parse(
      ReadTestFile(MegatronCorpusRoot() + "/" + name + "/expected.json"));
}

// What the common state is to be, as typed JSON.
inline nlohmann::json MegatronCommonState(const nlohmann::json& expected) {
  nlohmann::json common = expected["save"]["common"];
  if (!expected["save"]["content_metadata"].is_null()) {
    common["content_metadata"] = expected["save"]["content_metadata"];
  }
  return common;
}

}  // namespace holdfast
