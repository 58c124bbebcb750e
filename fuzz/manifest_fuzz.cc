// DecodeManifest: a decoded manifest is still equal after encoding and
// decoding.
#include "formats/ocdbt/format/manifest.h"
#include "ocdbt_fuzz.h"

namespace holdfast::ocdbt {
namespace {

void CheckSame(const Manifest& a, const Manifest& b) {
  FUZZ_CHECK(a.config == b.config);
  FUZZ_CHECK(a.versions.size() == b.versions.size());
  for (size_t i = 0; i < a.versions.size(); ++i) {
    Version version = b.versions[i];
    FUZZ_CHECK(SamePlace(a.versions[i].root, a.files, version.root, b.files));
    version.root = a.versions[i].root;
    FUZZ_CHECK(a.versions[i] == version);
  }
  FUZZ_CHECK(a.version_nodes.size() == b.version_nodes.size());
  for (size_t i = 0; i < a.version_nodes.size(); ++i) {
    VersionNodeReference reference = b.version_nodes[i];
    FUZZ_CHECK(
        SamePlace(a.version_nodes[i].node, a.files, reference.node, b.files));
    reference.node = a.version_nodes[i].node;
    FUZZ_CHECK(a.version_nodes[i] == reference);
  }
}

void CheckObject(const Bytes& object) {
  const auto manifest = DecodeManifest(object, "", kFuzzLimits);
  if (!manifest.ok()) return;
  const Bytes body = EncodeManifestBody(*manifest);
  const auto again =
      DecodeManifest(SealRaw(ObjectKind::kManifest, body.view()), "");
  FUZZ_CHECK_OK(again);
  CheckSame(*manifest, *again);
  FUZZ_CHECK(EncodeManifestBody(*again).view() == body.view());
}

}  // namespace
}  // namespace holdfast::ocdbt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::ocdbt::FuzzObject(holdfast::ocdbt::ObjectKind::kManifest,
                              holdfast::FuzzText(data, size),
                              holdfast::ocdbt::CheckObject);
  return 0;
}
