// Helpers for the fuzz targets: a check that no build option turns off, and
// functions that repair checksums. Without these repairs, a mutated input would
// fail at the first checksum.
//
// Thread-safety: pure functions. Units: bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ground/base/crc32c.h"
#include "holdfast/status.h"

#define FUZZ_CHECK(condition)                                             \
  do {                                                                    \
    if (!(condition)) holdfast::FuzzFail(#condition, __FILE__, __LINE__); \
  } while (false)
#define FUZZ_CHECK_OK(result) \
  holdfast::FuzzCheckOk((result), #result, __FILE__, __LINE__)

namespace holdfast {

[[noreturn]] inline void FuzzFail(const char* what, const char* file,
                                  int line) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  std::abort();
}

inline void FuzzCheckOk(const Status& status, const char* what,
                        const char* file, int line) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  FuzzFail(what, file, line);
}

template <typename T>
void FuzzCheckOk(const Result<T>& result, const char* what, const char* file,
                 int line) {
  FuzzCheckOk(result.status(), what, file, line);
}

inline std::string_view FuzzText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void PutLittleEndian(uint64_t value, size_t byte_count, char* target) {
  for (size_t i = 0; i < byte_count; ++i) {
    target[i] = static_cast<char>(value >> (8 * i));
  }
}

// Returns `object` with the length and the checksum that an OCDBT envelope of
// its size must have (src/formats/ocdbt/format/envelope.h).
inline std::string RepairedEnvelope(std::string_view object) {
  std::string text(object);
  if (text.size() < 4 + 8 + 2 + 4) return text;
  PutLittleEndian(text.size(), 8, &text[4]);
  const std::string_view covered(text.data(), text.size() - 4);
  PutLittleEndian(Crc32c(covered), 4, &text[covered.size()]);
  return text;
}

}  // namespace holdfast
