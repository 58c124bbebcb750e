// ParseDcpMetadata: all paths are inside the directory, and each chunk is
// inside its tensor.
#include "foreign/dcp/dcp_metadata.h"
#include "fuzz_util.h"
#include "stores/storage/store.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto metadata =
      holdfast::ParseDcpMetadata(holdfast::FuzzText(data, size));
  if (!metadata.ok()) return 0;
  for (const holdfast::DcpEntry& entry : metadata->entries) {
    for (const holdfast::DcpChunk& chunk : entry.chunks) {
      FUZZ_CHECK_OK(holdfast::CheckKey(chunk.record.file));
      const auto common = Intersect(chunk.box, holdfast::BoxOf(entry.shape));
      FUZZ_CHECK(IsEmpty(chunk.box) || (common && *common == chunk.box));
    }
  }
  return 0;
}
