// Reads the recorded answers of the real Orbax in tests/golden/manager. For
// tests only.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace holdfast {

using Json = nlohmann::json;

inline Json ManagerGolden(const std::string& name) {
  const std::string path =
      std::string(HOLDFAST_SOURCE_DIR) + "/tests/golden/manager/" + name;
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return Json::parse(in);
}

}  // namespace holdfast
