// The header of an npy file: the size of a parsed header's data fits its shape
// and strides, and the header of a plain array keeps its dtype and shape after
// writing and parsing.
#include <algorithm>

#include "foreign/npz/npy_header.h"
#include "fuzz_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const std::string_view bytes = FuzzText(data, size);
  const auto header = ParseNpyHeader(bytes);
  if (!header.ok()) return 0;
  FUZZ_CHECK(header->header_bytes == size);
  FUZZ_CHECK(header->strides.size() == header->shape.size());
  uint64_t span = DTypeBytes(header->dtype);
  bool is_empty = false;
  for (size_t d = 0; d < header->shape.size(); ++d) {
    is_empty |= header->shape[d] == 0;
    if (header->shape[d] > 0) {
      span += (header->shape[d] - 1) * header->strides[d];
    }
  }
  FUZZ_CHECK(is_empty ? header->data_bytes == 0 : header->data_bytes == span);
  // numpy has no names for these dtypes, so they cannot be written by name.
  const bool is_nameless =
      header->dtype == DType::kBfloat16 || header->dtype == DType::kFloat8E5m2;
  const bool is_text = header->text_kind != 0;
  if (is_text || is_nameless || header->is_big_endian || is_empty) return 0;
  const auto again =
      ParseNpyHeader(NpyHeaderBytes(header->dtype, header->shape));
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->dtype == header->dtype && again->shape == header->shape);
  return 0;
}
