// ParseTreeMetadata: a parsed `_METADATA` is still equal after writing and
// parsing.
#include "engine/format/tree_metadata.h"
#include "fuzz_util.h"

namespace holdfast {
namespace {

void CheckSameEntry(const TreeMetadataEntry& a, const TreeMetadataEntry& b) {
  FUZZ_CHECK(a.path == b.path);
  FUZZ_CHECK(a.value_type == b.value_type);
  FUZZ_CHECK(a.skip_deserialize == b.skip_deserialize);
  FUZZ_CHECK(a.write_shape == b.write_shape);
}

void CheckSame(const TreeMetadata& a, const TreeMetadata& b) {
  FUZZ_CHECK(a.entries.size() == b.entries.size());
  for (size_t i = 0; i < a.entries.size(); ++i) {
    CheckSameEntry(a.entries[i], b.entries[i]);
  }
  FUZZ_CHECK(a.use_ocdbt == b.use_ocdbt);
  FUZZ_CHECK(a.use_zarr3 == b.use_zarr3);
  FUZZ_CHECK(a.store_array_data_equal_to_fill_value ==
             b.store_array_data_equal_to_fill_value);
  FUZZ_CHECK(a.value_metadata_tree == b.value_metadata_tree);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto metadata =
      holdfast::ParseTreeMetadata(holdfast::FuzzText(data, size));
  if (!metadata.ok()) return 0;
  const std::string text = holdfast::SerializeTreeMetadata(*metadata);
  const auto again = holdfast::ParseTreeMetadata(text);
  FUZZ_CHECK_OK(again);
  holdfast::CheckSame(*metadata, *again);
  FUZZ_CHECK(holdfast::SerializeTreeMetadata(*again) == text);
  return 0;
}
