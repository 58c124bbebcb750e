// DigestLeaf: the digest of a leaf's value, slab by slab.
#include "engine/restore/leaf_request.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {
namespace {

// Memory used by a digest.
constexpr uint64_t kDigestSlabBytes = uint64_t{64} << 20;

Status DigestArray(const Checkpoint& checkpoint, size_t leaf, Sha256& sha256) {
  for (const Box& slab : SlabsOf(checkpoint.leaves()[leaf], kDigestSlabBytes)) {
    HF_ASSIGN_OR_RETURN(const Array array,
                        checkpoint.ReadBox(leaf, slab.origin, slab.shape));
    sha256.Update({array.view().data, array.byte_count()});
  }
  return Status();
}

}  // namespace

Result<std::string> DigestLeaf(const Checkpoint& checkpoint, size_t leaf) {
  Sha256 sha256;
  switch (checkpoint.leaves()[leaf].kind) {
    case ValueKind::kArray:
    case ValueKind::kScalar:
      HF_RETURN_IF_ERROR(DigestArray(checkpoint, leaf, sha256));
      break;
    case ValueKind::kString:
    case ValueKind::kBytes:
    case ValueKind::kJson: {
      HF_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(leaf));
      sha256.Update(text);
      break;
    }
    case ValueKind::kObject: {
      HF_ASSIGN_OR_RETURN(const std::string file, checkpoint.ReadText(leaf));
      const Result<PickleValue> value = ReadTorchFile(file);
      if (!value.ok()) {
        return value.status().WithContext("leaf " +
                                          checkpoint.leaves()[leaf].name);
      }
      sha256.Update(PickleValueToJson(*value));
      break;
    }
    default:
      break;
  }
  return sha256.HexDigest();
}

}  // namespace holdfast
