// ParseAggregate: parsing a msgpack file again gives an equal tree, and the
// tree flattens only to leaves and empty containers.
#include "engine/format/aggregate.h"
#include "fuzz_util.h"
#include "ground/tree/flatten.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = holdfast::FuzzText(data, size);
  const auto tree = holdfast::ParseAggregate(input);
  if (!tree.ok()) return 0;
  const auto again = holdfast::ParseAggregate(input);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(*tree == *again);
  const auto leaves = holdfast::Flatten(*tree);
  if (!leaves.ok()) return 0;
  for (const holdfast::FlatLeaf& leaf : *leaves) {
    FUZZ_CHECK(leaf.leaf != nullptr);
    FUZZ_CHECK(leaf.leaf->is_leaf() || leaf.leaf->is_empty_container());
  }
  return 0;
}
