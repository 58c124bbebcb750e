// DecodeVersionTreeNode: a decoded node is still equal after encoding and
// decoding.
#include "formats/ocdbt/format/version_tree.h"
#include "ocdbt_fuzz.h"

namespace holdfast::ocdbt {
namespace {

void CheckSame(const VersionTreeNode& a, const VersionTreeNode& b) {
  FUZZ_CHECK(a.version_tree_arity_log2 == b.version_tree_arity_log2);
  FUZZ_CHECK(a.height == b.height);
  FUZZ_CHECK(a.versions.size() == b.versions.size());
  for (size_t i = 0; i < a.versions.size(); ++i) {
    Version version = b.versions[i];
    FUZZ_CHECK(SamePlace(a.versions[i].root, a.files, version.root, b.files));
    version.root = a.versions[i].root;
    FUZZ_CHECK(a.versions[i] == version);
  }
  FUZZ_CHECK(a.children.size() == b.children.size());
  for (size_t i = 0; i < a.children.size(); ++i) {
    VersionNodeReference child = b.children[i];
    FUZZ_CHECK(SamePlace(a.children[i].node, a.files, child.node, b.files));
    child.node = a.children[i].node;
    FUZZ_CHECK(a.children[i] == child);
  }
  FUZZ_CHECK(a.LastGeneration() == b.LastGeneration());
}

void CheckObject(const Bytes& object) {
  const auto node = DecodeVersionTreeNode(object, "", kFuzzLimits);
  if (!node.ok()) return;
  const Bytes body = EncodeVersionTreeNodeBody(*node);
  const auto again = DecodeVersionTreeNode(
      SealRaw(ObjectKind::kVersionTreeNode, body.view()), "");
  FUZZ_CHECK_OK(again);
  CheckSame(*node, *again);
  FUZZ_CHECK(EncodeVersionTreeNodeBody(*again).view() == body.view());
}

}  // namespace
}  // namespace holdfast::ocdbt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::ocdbt::FuzzObject(holdfast::ocdbt::ObjectKind::kVersionTreeNode,
                              holdfast::FuzzText(data, size),
                              holdfast::ocdbt::CheckObject);
  return 0;
}
