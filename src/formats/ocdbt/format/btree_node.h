// B+tree nodes: keys with values (leaf, height 0) or with children.
//
// Body: height u8, data file table, entry count varint32, then columns: key
// prefix lengths, key suffix lengths, subtree common prefix lengths (interior
// only), key suffixes. Further columns of a leaf are value lengths, kinds, file
// ids and offsets of the indirect values, and inline values; those of an
// interior node are file ids, offsets, lengths and three statistics of the
// children.
//
// Thread-safety: values and pure functions; a decoded node is immutable.
// Ownership: decoded entries are views into one buffer that the node owns;
// entries to be encoded are borrowed. Units: bytes.
// Errors: DataLoss or InvalidArgument, as in TensorStore.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "formats/ocdbt/format/data_file_table.h"
#include "formats/ocdbt/format/envelope.h"
#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

// One key with its value: inline bytes, or a range of a data file.
struct LeafEntry {
  static constexpr uint32_t kInline = std::numeric_limits<uint32_t>::max();

  std::string_view key;
  uint32_t file_index = kInline;
  uint64_t value_byte_count = 0;
  union {
    const char* inline_data = nullptr;  // if is_inline()
    uint64_t offset;                    // else
  };

  bool is_inline() const { return file_index == kInline; }
  // REQUIRES: is_inline().
  std::string_view inline_value() const {
    return {inline_data, static_cast<size_t>(value_byte_count)};
  }
  void SetInline(std::string_view value) {
    file_index = kInline;
    value_byte_count = value.size();
    inline_data = value.data();
  }
  void SetIndirect(const Reference& reference) {
    file_index = reference.file_index;
    value_byte_count = reference.byte_count;
    offset = reference.offset;
  }
};

// A child node. `key` is a lower bound of the keys below; its first
// `subtree_prefix_byte_count` bytes are omitted from all keys stored below.
struct ChildEntry {
  std::string_view key;
  uint16_t subtree_prefix_byte_count = 0;
  Reference node;
  Statistics statistics;
};

// Keys are relative to the prefix that the parents imply. Entry i has the key
// key_prefix + entries[i].key, in increasing byte order.
struct BtreeNode {
  uint8_t height = 0;
  DataFileTable files;
  std::string_view key_prefix;
  size_t key_bytes_max = 0;  // length of the longest key, key_prefix included
  std::vector<LeafEntry> leaves;     // height 0
  std::vector<ChildEntry> children;  // height > 0

  Bytes body;       // inline values point here
  Buffer key_text;  // key_prefix and keys point here

  size_t entry_count() const {
    return height == 0 ? leaves.size() : children.size();
  }
  std::string_view relative_key(size_t i) const {
    return height == 0 ? leaves[i].key : children[i].key;
  }
  // Returns the memory in use, for caches.
  size_t memory_byte_count() const;
};

// `transitive_base` is the base path of the file that holds the node.
Result<BtreeNode> DecodeBtreeNode(const Bytes& object,
                                  std::string_view transitive_base,
                                  const DecodeLimits& limits = {});

// Encode bodies only; SealEnvelope makes the objects. file_index values index
// `files`; only used files are written. REQUIRES: 1 ... kNodeEntriesMax entries
// with increasing keys of at most kKeyBytesMax bytes, including key_prefix.
Bytes EncodeLeafNodeBody(std::string_view key_prefix,
                         std::span<const LeafEntry> entries,
                         const DataFileTable& files);
Bytes EncodeInteriorNodeBody(uint8_t height, std::string_view key_prefix,
                             std::span<const ChildEntry> entries,
                             const DataFileTable& files);

// Returns the length of the common prefix of two keys.
size_t CommonPrefixBytes(std::string_view a, std::string_view b);

}  // namespace holdfast::ocdbt
