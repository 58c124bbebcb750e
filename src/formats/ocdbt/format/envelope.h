// The envelope that manifests, B+tree nodes and version tree nodes share:
//
//   magic            4 bytes, most significant first
//   length           u64 little endian, of the complete object
//   format version   varint32, 0
//   compression      varint32, 0 = raw, 1 = one zstd frame
//   body
//   CRC-32C          u32 little endian, of everything before it
//
// Thread-safety: pure functions. Ownership: a raw body shares the object's
// memory, a compressed one gets its own. Units: bytes.
// Errors: DataLoss, or InvalidArgument where TensorStore returns that. The
// checksum is checked before any field after the length is trusted.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/ocdbt/format/limits.h"
#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

enum class ObjectKind : uint32_t {  // values are the magics
  kManifest = 0x0cdb3a2a,
  kBtreeNode = 0x0cdb20de,
  kVersionTreeNode = 0x0cdb1234,
};

struct OpenedObject {
  Bytes body;
  // The offset of the body in the object, for messages; 0 if it was compressed.
  uint64_t body_offset = 0;
  // Bytes between the end of the zstd frame and the checksum. They are an
  // error, but one that is reported only if the body itself is valid.
  uint64_t unread_byte_count = 0;
};

Result<OpenedObject> OpenEnvelope(const Bytes& object, ObjectKind kind,
                                  const DecodeLimits& limits = {});

struct Compression {
  bool zstd = true;
  int level = 0;  // zstd's; 0 is its default

  bool operator==(const Compression&) const = default;
};

// Returns the complete object that contains `body`.
Result<Bytes> SealEnvelope(ObjectKind kind, std::string_view body,
                           const Compression& compression);

}  // namespace holdfast::ocdbt
