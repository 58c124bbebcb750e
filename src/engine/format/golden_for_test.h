// Reads the golden files of tests/golden/format. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace holdfast {

inline std::string FormatGolden(const std::string& name) {
  const std::string path =
      std::string(HOLDFAST_SOURCE_DIR) + "/tests/golden/format/" + name;
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace holdfast
