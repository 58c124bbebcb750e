#include "ground/base/cpu.h"

#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace holdfast {
namespace {

#if defined(__x86_64__)
// Returns whether the system saves 32-byte registers for each thread. REQUIRES:
// OSXSAVE.
bool KeepsWideRegisters() {
  constexpr unsigned kSseAndAvx = 6;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kSseAndAvx) == kSseAndAvx;
}
#endif

CpuFeatures AskProcessor() {
  CpuFeatures features;
  const char* const wanted = std::getenv("HOLDFAST_CPU");
  if (wanted != nullptr && std::string_view(wanted) == "plain") return features;
#if defined(__x86_64__)
  // Reads CPUID directly: __builtin_cpu_supports reports no features if the
  // compiler's library does not fill in its table, as with ziglang, which
  // compiles the portable wheels.
  bool keeps_wide = false;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) {
    features.has_crc32 = (ecx & bit_SSE4_2) != 0;
    keeps_wide = (ecx & bit_OSXSAVE) != 0 && KeepsWideRegisters();
  }
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    features.has_bmi2 = (ebx & bit_BMI2) != 0;
    features.has_avx2 = keeps_wide && (ebx & bit_AVX2) != 0;
  }
#elif defined(__aarch64__)
  constexpr unsigned long kHwcapCrc32 = 1 << 7;  // <asm/hwcap.h>
  features.has_crc32 = (getauxval(AT_HWCAP) & kHwcapCrc32) != 0;
#endif
  return features;
}

// Initialized before there are threads: if a thread forked while another was
// initializing it, the child would wait for it forever.
[[maybe_unused]] const CpuFeatures& asked_at_start = Cpu();

}  // namespace

const CpuFeatures& Cpu() {
  static const CpuFeatures features = AskProcessor();
  return features;
}

}  // namespace holdfast
