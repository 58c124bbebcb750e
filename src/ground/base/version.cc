#include "holdfast/version.h"

#include "ground/base/cpu.h"

// Defined in a file that the build writes (cmake/commit.cmake).
extern const char kHoldfastCommit[];

namespace holdfast {

std::string_view Version() { return HOLDFAST_PROJECT_VERSION; }

std::string_view Commit() { return kHoldfastCommit; }

std::string_view ProcessorFeatures() {
  const CpuFeatures& cpu = Cpu();
  if (cpu.has_crc32) return cpu.has_bmi2 ? "crc32c bmi2" : "crc32c";
  return cpu.has_bmi2 ? "bmi2" : "";
}

}  // namespace holdfast
