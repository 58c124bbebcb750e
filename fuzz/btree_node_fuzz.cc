// DecodeBtreeNode: a decoded node is still equal after encoding and decoding.
#include "formats/ocdbt/format/btree_node.h"
#include "ocdbt_fuzz.h"

namespace holdfast::ocdbt {
namespace {

std::string FullKey(const BtreeNode& node, size_t i) {
  return std::string(node.key_prefix) + std::string(node.relative_key(i));
}

Bytes EncodeBody(const BtreeNode& node) {
  if (node.height == 0) {
    return EncodeLeafNodeBody(node.key_prefix, node.leaves, node.files);
  }
  return EncodeInteriorNodeBody(node.height, node.key_prefix, node.children,
                                node.files);
}

void CheckSameValue(const BtreeNode& a, const BtreeNode& b, size_t i) {
  const LeafEntry& x = a.leaves[i];
  const LeafEntry& y = b.leaves[i];
  FUZZ_CHECK(x.is_inline() == y.is_inline());
  FUZZ_CHECK(x.value_byte_count == y.value_byte_count);
  if (x.is_inline()) {
    FUZZ_CHECK(x.inline_value() == y.inline_value());
    return;
  }
  FUZZ_CHECK(x.offset == y.offset);
  FUZZ_CHECK(a.files[x.file_index] == b.files[y.file_index]);
}

void CheckSameChild(const BtreeNode& a, const BtreeNode& b, size_t i) {
  const ChildEntry& x = a.children[i];
  const ChildEntry& y = b.children[i];
  FUZZ_CHECK(x.subtree_prefix_byte_count == y.subtree_prefix_byte_count);
  FUZZ_CHECK(x.statistics == y.statistics);
  FUZZ_CHECK(SamePlace(x.node, a.files, y.node, b.files));
}

void CheckSame(const BtreeNode& a, const BtreeNode& b) {
  FUZZ_CHECK(a.height == b.height);
  FUZZ_CHECK(a.entry_count() == b.entry_count());
  FUZZ_CHECK(a.key_bytes_max == b.key_bytes_max);
  for (size_t i = 0; i < a.entry_count(); ++i) {
    FUZZ_CHECK(FullKey(a, i) == FullKey(b, i));
    FUZZ_CHECK(i == 0 || FullKey(a, i - 1) < FullKey(a, i));
    if (a.height == 0) {
      CheckSameValue(a, b, i);
    } else {
      CheckSameChild(a, b, i);
    }
  }
}

void CheckObject(const Bytes& object) {
  const auto node = DecodeBtreeNode(object, "", kFuzzLimits);
  if (!node.ok()) return;
  const Bytes body = EncodeBody(*node);
  const auto again =
      DecodeBtreeNode(SealRaw(ObjectKind::kBtreeNode, body.view()), "");
  FUZZ_CHECK_OK(again);
  CheckSame(*node, *again);
  FUZZ_CHECK(EncodeBody(*again).view() == body.view());
}

}  // namespace
}  // namespace holdfast::ocdbt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::ocdbt::FuzzObject(holdfast::ocdbt::ObjectKind::kBtreeNode,
                              holdfast::FuzzText(data, size),
                              holdfast::ocdbt::CheckObject);
  return 0;
}
