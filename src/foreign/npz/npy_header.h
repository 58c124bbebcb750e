// The header of an npy file, which numpy.lib.format writes before the elements.
//
//   \x93NUMPY, major and minor version, the header's length (2 bytes in version
//   1, 4 in 2 and 3, little endian), a dict in Python's syntax with the keys
//   descr, fortran_order and shape, spaces, a line feed; then the elements.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: DataLoss for a malformed header; Unimplemented, with the dtype, for a
// dtype whose elements holdfast does not support: no type is read as another.
// The types of ml_dtypes, for which numpy has no names, are the exception:
// "<V2" is read as bfloat16 and "<f1" as float8_e5m2, because nothing else is
// written like this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/dtype.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast {

// The largest header. (numpy itself trusts 10000 bytes.)
inline constexpr uint64_t kNpyHeaderBytesMax = 1 << 20;
// Magic, version and the longest length.
inline constexpr uint64_t kNpyStartBytes = 12;

struct NpyHeader {
  DType dtype = DType::kUint8;
  Shape shape;
  Shape strides;  // bytes
  bool is_big_endian = false;
  // Set for one string ('U', code points in uint32) or one byte string ('S'),
  // whose length is the only axis; otherwise 0.
  char text_kind = 0;
  uint64_t header_bytes = 0;  // offset of the elements
  uint64_t data_bytes = 0;
};

// Returns the size of the header, given the first kNpyStartBytes of the file
// (or the complete file, if it is shorter).
Result<uint64_t> NpyHeaderLength(std::string_view start);
// REQUIRES: `bytes` is the complete header.
Result<NpyHeader> ParseNpyHeader(std::string_view bytes);

// Returns the header that numpy.save writes for elements in C order.
// REQUIRES: numpy itself has the dtype.
std::string NpyHeaderBytes(DType dtype, const Shape& shape);

}  // namespace holdfast
