// The features of the processor beyond what every one of its kind can, asked
// once.
//
// With HOLDFAST_CPU=plain in the environment it can do nothing more: so tests
// run the code that other processors run.
// Thread-safety: the answers are made before main and never change.
#pragma once

namespace holdfast {

struct CpuFeatures {
  bool has_crc32 = false;  // CRC-32C in hardware: SSE 4.2; ARMv8's CRC32
  bool has_bmi2 = false;   // x86-64: shifts that need no flags
  bool has_avx2 = false;   // x86-64; the system keeps its registers, too
};

const CpuFeatures& Cpu();

}  // namespace holdfast
