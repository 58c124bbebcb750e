// A complete safetensors file: parsed tensors cover the data without gaps, and
// their entries are still equal after writing and parsing.
#include <algorithm>

#include "foreign/safetensors/safetensors_header.h"
#include "fuzz_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const std::string_view file = FuzzText(data, size);
  const auto length = SafetensorsHeaderLength(file.substr(0, 8), size);
  if (!length.ok()) return 0;
  FUZZ_CHECK(*length <= size - kSafetensorsLengthBytes);
  const std::string_view json = file.substr(kSafetensorsLengthBytes, *length);
  const uint64_t data_bytes = size - kSafetensorsLengthBytes - *length;
  const auto header = ParseSafetensorsHeader(json, data_bytes);
  if (!header.ok()) return 0;
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    FUZZ_CHECK(entry.dtype != nullptr && entry.begin == end);
    end = entry.end;
  }
  FUZZ_CHECK(end == data_bytes);
  const auto bytes = SafetensorsHeaderBytes(*header);
  FUZZ_CHECK_OK(bytes);
  const auto again = ParseSafetensorsHeader(
      std::string_view(*bytes).substr(kSafetensorsLengthBytes), data_bytes);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->metadata == header->metadata);
  FUZZ_CHECK(std::equal(
      header->entries.begin(), header->entries.end(), again->entries.begin(),
      again->entries.end(),
      [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
               a.begin == b.begin && a.end == b.end;
      }));
  return 0;
}
