#include "holdfast/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace holdfast {
namespace {

// The library's is CMake's.
TEST(VersionTest, HeadersLibraryAndPythonAgree) {
  EXPECT_EQ(Version(), HOLDFAST_VERSION);
  std::ifstream file(HOLDFAST_SOURCE_DIR "/pyproject.toml");
  const std::string project{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(project, ::testing::HasSubstr("\nversion = \"" +
                                            std::string(Version()) + "\"\n"));
}

}  // namespace
}  // namespace holdfast
