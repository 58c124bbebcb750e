// The optional features of this processor, detected once.
//
// HOLDFAST_CPU=plain in the environment turns all of them off, so that tests
// can run the code for other processors.
// Thread-safety: the answers are computed before main and never change.
#pragma once

namespace holdfast {

struct CpuFeatures {
  bool has_crc32 = false;  // CRC-32C in hardware: SSE 4.2; ARMv8's CRC32
  bool has_bmi2 = false;   // x86-64: shifts that need no flags
  bool has_avx2 = false;   // x86-64, if the system saves its registers
};

const CpuFeatures& Cpu();

}  // namespace holdfast
