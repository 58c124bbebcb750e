// The names of the formats, as the command line and Python take them.
#include <iterator>

#include "holdfast/options.h"

namespace holdfast {
namespace {

constexpr std::string_view kFormatNames[] = {
    "orbax",      "orbax-v1", "megatron-zarr", "safetensors", "dcp",
    "torch-dist", "npz"};

}  // namespace

std::string_view FormatName(Format format) {
  return kFormatNames[static_cast<size_t>(format)];
}

std::optional<Format> FormatFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kFormatNames); ++i) {
    if (kFormatNames[i] == name) return static_cast<Format>(i);
  }
  return std::nullopt;
}

}  // namespace holdfast
