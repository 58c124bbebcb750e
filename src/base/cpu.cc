#include "base/cpu.h"

#include <cstdlib>
#include <string_view>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace holdfast {
namespace {

CpuFeatures AskProcessor() {
  CpuFeatures features;
  const char* const wanted = std::getenv("HOLDFAST_CPU");
  if (wanted != nullptr && std::string_view(wanted) == "plain") return features;
#if defined(__x86_64__)
  features.has_crc32 = __builtin_cpu_supports("sse4.2");
  features.has_bmi2 = __builtin_cpu_supports("bmi2");
#elif defined(__aarch64__)
  constexpr unsigned long kHwcapCrc32 = 1 << 7;  // <asm/hwcap.h>
  features.has_crc32 = (getauxval(AT_HWCAP) & kHwcapCrc32) != 0;
#endif
  return features;
}

// Made before there are threads: if a thread forks while another asks, the
// child waits for it for ever.
[[maybe_unused]] const CpuFeatures& asked_at_start = Cpu();

}  // namespace

const CpuFeatures& Cpu() {
  static const CpuFeatures features = AskProcessor();
  return features;
}

}  // namespace holdfast
