// Builds a B+tree from sorted entries, leaves first and root last, in the
// shape that TensorStore gives it.
//
// Thread-safety: pure apart from the sink. Ownership: borrows for the call.
// Units: bytes. Errors: those of the sink.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "formats/ocdbt/format/btree_node.h"
#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

struct TreeOptions {
  uint64_t node_bytes_max = 100000000;  // max_decoded_node_bytes
  Compression compression;
};

// Stores one encoded node and says where. It may extend the file table.
using NodeSink = std::function<Result<Reference>(const Bytes& object)>;

// An encoded node, and the CRC-32C of all of it but its last four bytes, which
// are a CRC themselves.
struct WrittenNode {
  Reference place;
  uint32_t crc32c = 0;
};

struct BuiltTree {
  Reference root;
  uint8_t height = 0;
  Statistics statistics;
  uint64_t node_count = 0;
  std::vector<WrittenNode> nodes;  // as written
};

// REQUIRES: at least one entry; keys increase and have at most kKeyBytesMax
// bytes. `files` is what entries and the sink's references index.
Result<BuiltTree> BuildTree(std::span<const LeafEntry> entries,
                            const DataFileTable& files,
                            const TreeOptions& options, const NodeSink& sink);

}  // namespace holdfast::ocdbt
