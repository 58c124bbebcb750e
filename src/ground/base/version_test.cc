#include "holdfast/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace holdfast {
namespace {

// The library's version comes from CMake.
TEST(VersionTest, HeadersLibraryAndPythonAgree) {
  EXPECT_EQ(Version(), HOLDFAST_VERSION);
  std::ifstream file(HOLDFAST_SOURCE_DIR "/pyproject.toml");
  const std::string project{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(project, ::testing::HasSubstr("\nversion = \"" +
                                            std::string(Version()) + "\"\n"));
}

#if defined(__x86_64__)
TEST(VersionTest, ProcessorIsAsTheKernelSaysUnlessPlain) {
  const char* const wanted = std::getenv("HOLDFAST_CPU");
  if (wanted != nullptr) {
    EXPECT_EQ(ProcessorFeatures(), "");
    return;
  }
  std::ifstream file("/proc/cpuinfo");
  const std::string flags{std::istreambuf_iterator<char>(file), {}};
  const bool has_crc32 = flags.find(" sse4_2") != std::string::npos;
  const bool has_bmi2 = flags.find(" bmi2") != std::string::npos;
  EXPECT_EQ(ProcessorFeatures().find("crc32c") != std::string_view::npos,
            has_crc32);
  EXPECT_EQ(ProcessorFeatures().find("bmi2") != std::string_view::npos,
            has_bmi2);
}
#endif

}  // namespace
}  // namespace holdfast
