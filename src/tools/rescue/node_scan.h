// Finds unreferenced nodes of a database in a data file by their magic, their
// length and their CRC-32C.
//
// Thread-safety: pure functions of the store. Units: bytes.
// Memory: a few MiB, whatever the file contains; time: a file full of false
// magics is read at most kRereadsMax times.
// Errors: those of the store; Cancelled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/ocdbt/format/envelope.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast {

inline constexpr uint64_t kRereadsMax = 8;

struct ScannedNode {
  ocdbt::ObjectKind kind = ocdbt::ObjectKind::kBtreeNode;
  uint64_t offset = 0;
  uint64_t byte_count = 0;

  bool operator==(const ScannedNode&) const = default;
};

// Returns the B+tree nodes and version tree nodes with valid checksums, sorted
// by offset. They do not overlap. `file_bytes` is the file's size.
Result<std::vector<ScannedNode>> ScanForNodes(
    Store& store, const std::string& file, uint64_t file_bytes,
    const CancelToken* cancel = nullptr);

}  // namespace holdfast
