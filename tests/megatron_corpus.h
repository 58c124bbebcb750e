// The golden Megatron corpus, which is unpacked once per process. For tests.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "twins/scratch_directory.h"

namespace holdfast {

inline const std::string& MegatronCorpusRoot() {
  struct Corpus {
    Corpus() : root(scratch / "open") {
      const std::string command = "tar -xJf " HOLDFAST_SOURCE_DIR
                                  "/tests/golden/megatron/open.tar.xz -C " +
                                  scratch.path();
      if (std::system(command.c_str()) != 0) std::abort();
    }
    const ScratchDirectory scratch;
    const std::string root;
  };
  static const Corpus corpus;
  return corpus.root;
}

// Returns the expected.json of a checkpoint.
inline nlohmann::json MegatronExpected(const std::string& name) {
  return nlohmann::json::parse(
      ReadTestFile(MegatronCorpusRoot() + "/" + name + "/expected.json"));
}

// Returns the expected common state as typed JSON.
inline nlohmann::json MegatronCommonState(const nlohmann::json& expected) {
  nlohmann::json common = expected["save"]["common"];
  if (!expected["save"]["content_metadata"].is_null()) {
    common["content_metadata"] = expected["save"]["content_metadata"];
  }
  return common;
}

}  // namespace holdfast
