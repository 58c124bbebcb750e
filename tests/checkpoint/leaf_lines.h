// The contents of a checkpoint of any format, as text for tests to compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "holdfast/holdfast.h"

namespace holdfast {

// Returns a line with the name, dtype, shape and digest for each leaf, sorted.
inline std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  const auto opened = Open(path);
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
  if (!opened.ok()) return lines;
  for (size_t i = 0; i < (*opened)->leaves().size(); ++i) {
    const LeafInfo& leaf = (*opened)->leaves()[i];
    const auto digest = DigestLeaf(**opened, i);
    lines.push_back(leaf.name + " " +
                    (leaf.dtype ? std::string(DTypeName(*leaf.dtype)) : "") +
                    ShapeToString(leaf.shape) + " " +
                    (digest.ok() ? *digest : digest.status().ToString()));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace holdfast
