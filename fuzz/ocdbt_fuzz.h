// Feeds the input to an OCDBT decoder as a complete object, as an object with
// its length and checksum corrected, and as the body of an object.
#pragma once

#include <string>
#include <string_view>

#include "formats/ocdbt/format/data_file_table.h"
#include "formats/ocdbt/format/envelope.h"
#include "fuzz_util.h"

namespace holdfast::ocdbt {

// Bodies may be compressed; this keeps a run far from the memory limit.
inline constexpr DecodeLimits kFuzzLimits{.decompressed_bytes_max = uint64_t{16}
                                                                    << 20};

inline Bytes SealRaw(ObjectKind kind, std::string_view body) {
  const Result<Bytes> object = SealEnvelope(kind, body, {.zstd = false});
  FUZZ_CHECK_OK(object);
  return *object;
}

// Calls check(object), which decodes the object and checks what it decoded, for
// the input in each of the three forms.
template <typename Check>
void FuzzObject(ObjectKind kind, std::string_view input, const Check& check) {
  check(Bytes(std::string(input)));
  check(Bytes(RepairedEnvelope(input)));
  check(SealRaw(kind, input));
}

// Returns whether two references, each with its own table, refer to the same
// bytes.
inline bool SamePlace(const Reference& a, const DataFileTable& a_files,
                      const Reference& b, const DataFileTable& b_files) {
  if (a.missing() || b.missing()) return a.missing() && b.missing();
  return a.offset == b.offset && a.byte_count == b.byte_count &&
         a_files[a.file_index] == b_files[b.file_index];
}

}  // namespace holdfast::ocdbt
