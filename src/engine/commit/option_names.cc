// The names of formats and compressions, as the command line, C and Python take
// them.
#include <cstddef>

#include "holdfast/options.h"

namespace holdfast {
namespace {

constexpr std::string_view kFormatNames[] = {
    "orbax",      "orbax-v1", "megatron-zarr", "safetensors", "dcp",
    "torch-dist", "npz"};
constexpr std::string_view kCompressionNames[] = {"planes", "zstd", "fast",
                                                  "none"};

// Returns the value with this name.
template <typename Value, size_t kCount>
std::optional<Value> ValueNamed(const std::string_view (&names)[kCount],
                                std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Value>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view FormatName(Format format) {
  return kFormatNames[static_cast<size_t>(format)];
}

std::optional<Format> FormatFromName(std::string_view name) {
  return ValueNamed<Format>(kFormatNames, name);
}

std::string_view CompressionName(Compression compression) {
  return kCompressionNames[static_cast<size_t>(compression)];
}

std::optional<Compression> CompressionFromName(std::string_view name) {
  return ValueNamed<Compression>(kCompressionNames, name);
}

}  // namespace holdfast
