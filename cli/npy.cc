#include "cli/npy.h"

namespace holdfast::cli {
namespace {

bool NumpyKnows(DType dtype) {
  const DTypeKind kind = DTypeKindOf(dtype);
  if (kind == DTypeKind::kFloat) {
    return dtype == DType::kFloat16 || dtype == DType::kFloat32 ||
           dtype == DType::kFloat64;
  }
  return DTypeBits(dtype) >= 8;  // not for int4 and the like
}

char KindLetter(DType dtype) {
  if (!NumpyKnows(dtype)) return 'V';
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kBool:
      return 'b';
    case DTypeKind::kSigned:
      return 'i';
    case DTypeKind::kUnsigned:
      return 'u';
    case DTypeKind::kFloat:
      return 'f';
    case DTypeKind::kComplex:
      return 'c';
  }
  return 'V';
}

std::string LittleEndian(size_t value, int byte_count) {
  std::string bytes;
  for (int i = 0; i < byte_count; ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
  return bytes;
}

}  // namespace

std::string NpyDescr(DType dtype) {
  const char letter = KindLetter(dtype);
  const bool has_order = DTypeBytes(dtype) > 1 || letter == 'V';
  return std::string(has_order ? "<" : "|") + letter +
         std::to_string(DTypeBytes(dtype));
}

std::string NpyHeader(DType dtype, const Shape& shape) {
  std::string dict =
      "{'descr': '" + NpyDescr(dtype) +
      "', 'fortran_order': False, 'shape': " + ShapeToString(shape) + ", }";
  constexpr size_t kAlignment = 64;
  constexpr size_t kMagicBytes = 8;  // magic and version
  const bool is_long = dict.size() + kAlignment > 0xffff;
  const size_t prefix_bytes = kMagicBytes + (is_long ? 4 : 2);
  const size_t used = prefix_bytes + dict.size() + 1;
  dict.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  dict += '\n';
  return std::string("\x93NUMPY") + static_cast<char>(is_long ? 2 : 1) + '\0' +
         LittleEndian(dict.size(), is_long ? 4 : 2) + dict;
}

}  // namespace holdfast::cli
