#include "formats/ocdbt/format/btree_node.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "formats/ocdbt/format/body_reader.h"
#include "formats/ocdbt/format/limits.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

// The smallest size of an entry: one byte per column. The first entry has no
// key prefix.
constexpr uint64_t kLeafEntryBytesMin = 3;
constexpr uint64_t kInteriorEntryBytesMin = 8;

struct KeyLengths {
  uint16_t prefix = 0;
  uint16_t suffix = 0;
  uint16_t subtree_prefix = 0;

  uint32_t total() const { return uint32_t{prefix} + suffix; }
};

Status ReadKeyLengths(BodyReader& reader, int height,
                      std::span<KeyLengths> lengths) {
  for (size_t i = 1; i < lengths.size(); ++i) {
    HF_RETURN_IF_ERROR(reader.ReadVarint16(lengths[i].prefix));
  }
  for (KeyLengths& length : lengths) {
    HF_RETURN_IF_ERROR(reader.ReadVarint16(length.suffix));
  }
  if (height == 0) return Status();
  for (KeyLengths& length : lengths) {
    HF_RETURN_IF_ERROR(reader.ReadVarint16(length.subtree_prefix));
  }
  return Status();
}

Status CheckKeyLength(const BodyReader& reader, size_t i,
                      uint32_t previous_length, const KeyLengths& here) {
  const std::string index = std::to_string(i);
  const std::string total = std::to_string(here.total());
  if (here.prefix > previous_length) {
    return reader.DataLoss(
        "Child " + index + ": Prefix length of " + std::to_string(here.prefix) +
        " exceeds previous key length " + std::to_string(previous_length));
  }
  if (here.total() > kKeyBytesMax) {
    return reader.DataLoss("Child " + index + ": Key length " + total +
                           " exceeds limit of 65535");
  }
  if (here.subtree_prefix <= here.total()) return Status();
  return reader.DataLoss("Key " + index + ": subtree common prefix length of " +
                         std::to_string(here.subtree_prefix) +
                         " exceeds key length of " + total);
}

Status CheckKeyLengths(const BodyReader& reader,
                       std::span<const KeyLengths> lengths) {
  uint32_t previous_length = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const KeyLengths& here = lengths[i];
    if (here.prefix > previous_length || here.total() > kKeyBytesMax ||
        here.subtree_prefix > here.total()) {
      return CheckKeyLength(reader, i, previous_length, here);
    }
    previous_length = here.total();
  }
  return Status();
}

// Returns the prefix length that all keys share. The shared part is stored
// once.
uint32_t SharedPrefix(std::span<const KeyLengths> lengths) {
  if (lengths.size() < 2) return 0;
  uint32_t shared = lengths[1].prefix;
  for (const KeyLengths& length : lengths.subspan(2)) {
    shared = std::min<uint32_t>(shared, length.prefix);
  }
  return shared;
}

Result<Buffer> KeyMemory(const BodyReader& reader,
                         std::span<const KeyLengths> lengths, uint32_t shared) {
  uint64_t total = shared;
  for (const KeyLengths& length : lengths) total += length.total() - shared;
  const uint64_t total_max =
      kExpansionBytesFree +
      kExpansionRatioMax * (reader.offset() + reader.remaining());
  if (total > total_max) {
    // Prefixes let a few bytes describe long keys, so the bound on memory
    // depends on the number of bytes in the body.
    return reader.DataLoss("Keys of node take " + std::to_string(total) +
                           " bytes, which exceeds limit of " +
                           std::to_string(total_max));
  }
  Buffer memory = Buffer::TryAllocate(total);
  if (total != 0 && memory.data() == nullptr) {
    return ResourceExhaustedError("no memory for keys of " +
                                  std::to_string(total) + " bytes");
  }
  return memory;
}

// Reads the key suffixes and builds the keys in node.key_text. Calls set(i,
// key) with each key, without the shared prefix.
template <typename SetKey>
Status ReadKeys(BodyReader& reader, std::span<const KeyLengths> lengths,
                BtreeNode& node, const SetKey& set) {
  const uint32_t shared = SharedPrefix(lengths);
  HF_ASSIGN_OR_RETURN(node.key_text, KeyMemory(reader, lengths, shared));
  // The first key is complete; its first part serves as the shared prefix.
  char* next = node.key_text.data();
  node.key_prefix = {next, shared};
  std::string_view previous;
  for (size_t i = 0; i < lengths.size(); ++i) {
    std::string_view suffix;
    HF_RETURN_IF_ERROR(reader.ReadBytes(lengths[i].suffix, suffix));
    if (i == 0) {
      if (!suffix.empty()) std::memcpy(next, suffix.data(), suffix.size());
      // CheckKeyLengths has ensured that the first key is at least as long as
      // `shared`.
      previous = {next + shared, suffix.size() - shared};
      next += suffix.size();
      set(i, previous);
      continue;
    }
    // Not negative, since `shared` is the shortest prefix.
    const size_t kept = lengths[i].prefix - shared;
    // Keys must increase, or binary searches in the node would miss some of
    // them.
    if (previous.substr(kept) >= suffix) {
      return reader.DataLoss("Invalid key order");
    }
    if (kept != 0) std::memcpy(next, previous.data(), kept);
    if (!suffix.empty()) {
      std::memcpy(next + kept, suffix.data(), suffix.size());
    }
    previous = {next, kept + suffix.size()};
    next += previous.size();
    set(i, previous);
  }
  return Status();
}

Status ReadValueKinds(BodyReader& reader, std::span<LeafEntry> entries) {
  for (LeafEntry& entry : entries) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(entry.value_byte_count));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    uint8_t kind = 0;
    HF_RETURN_IF_ERROR(reader.ReadByte(kind));
    if (kind > 1) {
      return reader.DataLoss("value_kind[" + std::to_string(i) +
                             "]=" + std::to_string(kind) +
                             " is outside valid range [0, 1]");
    }
    LeafEntry& entry = entries[i];
    if (kind == 0 && entry.value_byte_count > kInlineValueBytesMax) {
      return reader.DataLoss("value_length[" + std::to_string(i) +
                             "]=" + std::to_string(entry.value_byte_count) +
                             " exceeds maximum of 1048576 for an inline "
                             "value");
    }
    entry.file_index = kind == 0 ? LeafEntry::kInline : 0;
  }
  return Status();
}

Status ReadValues(BodyReader& reader, const DataFileTable& files,
                  std::span<LeafEntry> entries) {
  HF_RETURN_IF_ERROR(ReadValueKinds(reader, entries));
  for (LeafEntry& entry : entries) {
    if (entry.is_inline()) continue;
    HF_RETURN_IF_ERROR(ReadFileIndex(reader, files, entry.file_index));
  }
  for (LeafEntry& entry : entries) {
    if (entry.is_inline()) continue;
    uint64_t offset = 0;
    HF_RETURN_IF_ERROR(reader.ReadVarint64(offset));
    entry.offset = offset;
    HF_RETURN_IF_ERROR(CheckRange(
        reader, files, {entry.file_index, offset, entry.value_byte_count}));
  }
  for (LeafEntry& entry : entries) {
    if (!entry.is_inline()) continue;
    std::string_view value;
    HF_RETURN_IF_ERROR(reader.ReadBytes(entry.value_byte_count, value));
    entry.SetInline(value);
  }
  return Status();
}

Status ReadChildren(BodyReader& reader, const DataFileTable& files,
                    std::span<ChildEntry> entries) {
  std::vector<Reference> nodes(entries.size());
  HF_RETURN_IF_ERROR(ReadReferences(reader, files, AllowMissing::kNo, nodes));
  std::vector<Statistics> statistics(entries.size());
  HF_RETURN_IF_ERROR(ReadStatistics(reader, statistics));
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].node = nodes[i];
    entries[i].statistics = statistics[i];
  }
  return Status();
}

Result<uint32_t> ReadEntryCount(BodyReader& reader, int height) {
  uint32_t count = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint32(count));
  if (count == 0) return reader.DataLoss("Empty b-tree node");
  if (count > kNodeEntriesMax) {
    return reader.DataLoss("B-tree node has arity " + std::to_string(count) +
                           ", which exceeds limit of 1048576");
  }
  HF_RETURN_IF_ERROR(reader.CheckRoomFor(
      count, height == 0 ? kLeafEntryBytesMin : kInteriorEntryBytesMin));
  return count;
}

Status ReadBtreeNodeBody(BodyReader& reader, std::string_view transitive_base,
                         BtreeNode& node) {
  HF_RETURN_IF_ERROR(reader.ReadByte(node.height));
  HF_ASSIGN_OR_RETURN(node.files, ReadDataFileTable(reader, transitive_base));
  HF_ASSIGN_OR_RETURN(const uint32_t count,
                      ReadEntryCount(reader, node.height));
  std::vector<KeyLengths> lengths(count);
  HF_RETURN_IF_ERROR(ReadKeyLengths(reader, node.height, lengths));
  HF_RETURN_IF_ERROR(CheckKeyLengths(reader, lengths));
  for (const KeyLengths& length : lengths) {
    node.key_bytes_max = std::max<size_t>(node.key_bytes_max, length.total());
  }
  if (node.height == 0) {
    node.leaves.resize(count);
    HF_RETURN_IF_ERROR(ReadKeys(
        reader, lengths, node,
        [&](size_t i, std::string_view key) { node.leaves[i].key = key; }));
    return ReadValues(reader, node.files, node.leaves);
  }
  node.children.resize(count);
  HF_RETURN_IF_ERROR(
      ReadKeys(reader, lengths, node, [&](size_t i, std::string_view key) {
        node.children[i].key = key;
        node.children[i].subtree_prefix_byte_count = lengths[i].subtree_prefix;
      }));
  return ReadChildren(reader, node.files, node.children);
}

template <typename Entry>
std::vector<uint16_t> SharedWithPrevious(std::string_view key_prefix,
                                         std::span<const Entry> entries) {
  std::vector<uint16_t> shared(entries.size(), 0);
  for (size_t i = 1; i < entries.size(); ++i) {
    shared[i] = static_cast<uint16_t>(
        key_prefix.size() +
        CommonPrefixBytes(entries[i - 1].key, entries[i].key));
  }
  return shared;
}

// Writes key_prefix + key from byte `start` on.
void WriteKeySuffix(std::string_view key_prefix, std::string_view key,
                    size_t start, BodyWriter& writer) {
  if (start < key_prefix.size()) {
    writer.PutBytes(key_prefix.substr(start));
    start = key_prefix.size();
  }
  writer.PutBytes(key.substr(start - key_prefix.size()));
}

// Writes height, table, entry count and the key columns.
// `write_subtree_prefixes` writes the column between lengths and suffixes.
template <typename Entry, typename Fn>
void WriteHead(uint8_t height, std::string_view key_prefix,
               std::span<const Entry> entries, const DataFileTableWriter& files,
               BodyWriter& writer, const Fn& write_subtree_prefixes) {
  const std::vector<uint16_t> shared = SharedWithPrevious(key_prefix, entries);
  writer.PutByte(height);
  files.Write(writer);
  writer.PutVarint(entries.size());
  for (size_t i = 1; i < entries.size(); ++i) writer.PutVarint(shared[i]);
  for (size_t i = 0; i < entries.size(); ++i) {
    writer.PutVarint(key_prefix.size() + entries[i].key.size() - shared[i]);
  }
  write_subtree_prefixes();
  for (size_t i = 0; i < entries.size(); ++i) {
    WriteKeySuffix(key_prefix, entries[i].key, shared[i], writer);
  }
}

template <typename Entry>
uint64_t HeadBytesMax(std::string_view key_prefix,
                      std::span<const Entry> entries,
                      const DataFileTableWriter& files) {
  uint64_t total = 1 + files.BytesMax() + kVarint32BytesMax +
                   key_prefix.size() + entries.size() * 3 * kVarint16BytesMax;
  for (const Entry& entry : entries) total += entry.key.size();
  return total;
}

uint64_t ValuesBytesMax(std::span<const LeafEntry> entries) {
  uint64_t total = 0;
  for (const LeafEntry& entry : entries) {
    total += kVarint64BytesMax + 1;
    total += entry.is_inline() ? entry.value_byte_count : 2 * kVarint64BytesMax;
  }
  return total;
}

}  // namespace

size_t BtreeNode::memory_byte_count() const {
  size_t total = sizeof *this + body.size() + key_text.size() +
                 leaves.size() * sizeof(LeafEntry) +
                 children.size() * sizeof(ChildEntry) +
                 files.size() * sizeof(DataFile);
  for (const DataFile& file : files) total += file.path.size();
  return total;
}

size_t CommonPrefixBytes(std::string_view a, std::string_view b) {
  const size_t size = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + size, b.begin()).first -
         a.begin();
}

Result<BtreeNode> DecodeBtreeNode(const Bytes& object,
                                  std::string_view transitive_base,
                                  const DecodeLimits& limits) {
  const auto decode = [&]() -> Result<BtreeNode> {
    HF_ASSIGN_OR_RETURN(const OpenedObject opened,
                        OpenEnvelope(object, ObjectKind::kBtreeNode, limits));
    BodyReader reader(opened.body.view(), opened.body_offset);
    BtreeNode node;
    node.body = opened.body;
    HF_RETURN_IF_ERROR(ReadBtreeNodeBody(reader, transitive_base, node));
    HF_RETURN_IF_ERROR(reader.ExpectEnd(opened.unread_byte_count));
    return node;
  };
  Result<BtreeNode> node = decode();
  if (node.ok()) return node;
  return node.status().WithContext("Error decoding b-tree node");
}

Bytes EncodeLeafNodeBody(std::string_view key_prefix,
                         std::span<const LeafEntry> entries,
                         const DataFileTable& files) {
  DataFileTableWriter table(files);
  for (const LeafEntry& entry : entries) {
    if (!entry.is_inline()) table.Use(entry.file_index);
  }
  table.Sort();
  BodyWriter writer(HeadBytesMax(key_prefix, entries, table) +
                    ValuesBytesMax(entries));
  WriteHead(0, key_prefix, entries, table, writer, [] {});
  for (const LeafEntry& entry : entries) {
    writer.PutVarint(entry.value_byte_count);
  }
  for (const LeafEntry& entry : entries) {
    writer.PutByte(entry.is_inline() ? 0 : 1);
  }
  for (const LeafEntry& entry : entries) {
    if (entry.is_inline()) continue;
    writer.PutVarint(table.WrittenIndex(entry.file_index));
  }
  for (const LeafEntry& entry : entries) {
    if (!entry.is_inline()) writer.PutVarint(entry.offset);
  }
  for (const LeafEntry& entry : entries) {
    if (entry.is_inline()) writer.PutBytes(entry.inline_value());
  }
  return std::move(writer).Take();
}

Bytes EncodeInteriorNodeBody(uint8_t height, std::string_view key_prefix,
                             std::span<const ChildEntry> entries,
                             const DataFileTable& files) {
  DataFileTableWriter table(files);
  for (const ChildEntry& entry : entries) table.Use(entry.node.file_index);
  table.Sort();
  BodyWriter writer(HeadBytesMax(key_prefix, entries, table) +
                    entries.size() * 6 * kVarint64BytesMax);
  WriteHead(height, key_prefix, entries, table, writer, [&] {
    for (const ChildEntry& entry : entries) {
      writer.PutVarint(entry.subtree_prefix_byte_count);
    }
  });
  for (const ChildEntry& entry : entries) {
    writer.PutVarint(table.WrittenIndex(entry.node.file_index));
  }
  for (const ChildEntry& e : entries) writer.PutVarint(e.node.offset);
  for (const ChildEntry& e : entries) writer.PutVarint(e.node.byte_count);
  for (const ChildEntry& e : entries) writer.PutVarint(e.statistics.key_count);
  for (const ChildEntry& entry : entries) {
    writer.PutVarint(entry.statistics.tree_byte_count);
  }
  for (const ChildEntry& entry : entries) {
    writer.PutVarint(entry.statistics.indirect_value_byte_count);
  }
  return std::move(writer).Take();
}

}  // namespace holdfast::ocdbt
