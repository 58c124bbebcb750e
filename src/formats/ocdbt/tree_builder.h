// Builds a B+tree from sorted entries, from the leaves up to the root, in the
// shape that TensorStore would give it.
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

// Stores one encoded node and returns its place. May extend the file table.
using NodeSink = std::function<Result<Reference>(const Bytes& object)>;

// An encoded node, and the CRC-32C of its bytes without the last four, which
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
  std::vector<WrittenNode> nodes;  // in the order of writing
};

// REQUIRES: at least one entry; keys increase and have at most kKeyBytesMax
// bytes. Entries and the references that the sink returns index `files`.
Result<BuiltTree> BuildTree(std::span<const LeafEntry> entries,
                            const DataFileTable& files,
                            const TreeOptions& options, const NodeSink& sink);

}  // namespace holdfast::ocdbt
