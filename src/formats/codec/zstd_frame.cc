#include "formats/codec/zstd_frame.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/xxh64.h"

namespace holdfast {
namespace {

constexpr uint32_t kMagic = 0xFD2FB528;
constexpr uint32_t kSkippableMagic = 0x184D2A50;  // low 4 bits are free
constexpr size_t kHeaderBytesMax = 14;

// Frame_Header_Descriptor.
constexpr uint8_t kSingleSegment = 0x20;
constexpr uint8_t kUnusedBit = 0x10;
constexpr uint8_t kReservedBit = 0x08;
constexpr uint8_t kHasChecksum = 0x04;
constexpr uint8_t kDictionaryIdMask = 0x03;

// A single-segment frame requires a window of the complete content; RFC 8878
// requires every reader to support 8 MiB. Larger stored frames declare a window
// of one block (2^17: exponent 7 over 2^10), which is enough for raw blocks.
constexpr uint64_t kSingleSegmentBytesMax = uint64_t{8} << 20;
constexpr uint8_t kOneBlockWindow = 7 << 3;

struct Block {
  bool last = false;
  ZstdBlockType type = ZstdBlockType::kRaw;
  uint32_t size = 0;  // of the content or, if compressed, of the data

  size_t stored_bytes() const { return type == ZstdBlockType::kRun ? 1 : size; }
};

Status FrameError(std::string_view what, uint64_t offset) {
  return DataLossError("zstd frame: byte " + std::to_string(offset) + ": " +
                       std::string(what));
}

// Reads as Cursor does, over bytes that are read on demand.
class SourceCursor {
 public:
  explicit SourceCursor(EncodedSource& source) : source_(source) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return source_.byte_count() - offset_; }
  // Returns the source's error, if that made a read return false.
  const Status& status() const { return status_; }

  // REQUIRES: byte_count <= sizeof bytes_.
  bool ReadBytes(size_t byte_count, std::string_view& value) {
    assert(byte_count <= sizeof bytes_);
    if (remaining() < byte_count) return false;
    status_ = source_.ReadAt(offset_, {bytes_, byte_count});
    if (!status_.ok()) return false;
    offset_ += byte_count;
    value = {bytes_, byte_count};
    return true;
  }
  bool ReadByte(uint8_t& value) {
    std::string_view bytes;
    if (!ReadBytes(1, bytes)) return false;
    value = static_cast<uint8_t>(bytes[0]);
    return true;
  }
  bool ReadU32Little(uint32_t& value) {
    std::string_view bytes;
    if (!ReadBytes(sizeof value, bytes)) return false;
    value = LoadLittle<uint32_t>(bytes.data());
    return true;
  }
  bool Skip(size_t byte_count) {
    if (remaining() < byte_count) return false;
    offset_ += byte_count;
    return true;
  }

 private:
  EncodedSource& source_;
  uint64_t offset_ = 0;
  char bytes_[8];
  Status status_;
};

bool Skip(Cursor& cursor, size_t byte_count) {
  std::string_view skipped;
  return cursor.ReadBytes(byte_count, skipped);
}
bool Skip(SourceCursor& cursor, size_t byte_count) {
  return cursor.Skip(byte_count);
}

template <typename AnyCursor>
bool ReadLittle(AnyCursor& cursor, int byte_count, uint64_t& value) {
  std::string_view bytes;
  if (!cursor.ReadBytes(byte_count, bytes)) return false;
  value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return true;
}

template <typename AnyCursor>
Status CheckMagic(AnyCursor& cursor) {
  uint32_t magic;
  if (!cursor.ReadU32Little(magic)) return FrameError("truncated magic", 0);
  if (magic == kMagic) return Status();
  if ((magic & ~uint32_t{0xF}) == kSkippableMagic) {
    return FrameError("skippable frame (want one data frame)", 0);
  }
  return FrameError("not a zstd frame", 0);
}

Status CheckDescriptor(uint8_t descriptor) {
  if (descriptor & kUnusedBit) return FrameError("unused bit is set", 4);
  if (descriptor & kReservedBit) return FrameError("reserved bit is set", 4);
  if (descriptor & kDictionaryIdMask) {
    return FrameError("needs a dictionary, but chunks have no dictionary", 4);
  }
  return Status();
}

// Returns the Window_Size for a Window_Descriptor byte.
uint64_t WindowBytes(uint8_t window) {
  const uint64_t base = uint64_t{1} << (10 + (window >> 3));
  return base + base / 8 * (window & 7);
}

// Returns the size of the Frame_Content_Size field, or 0 if the field is
// absent.
int ContentSizeFieldBytes(uint8_t descriptor) {
  const int flag = descriptor >> 6;
  if (flag == 0) return (descriptor & kSingleSegment) ? 1 : 0;
  return 1 << flag;
}

struct Header {
  ZstdFrameInfo info;
  uint64_t block_bytes_max = 0;
};

template <typename AnyCursor>
Result<Header> ReadHeader(AnyCursor& cursor) {
  HF_RETURN_IF_ERROR(CheckMagic(cursor));
  uint8_t descriptor;
  uint8_t window = 0;
  if (!cursor.ReadByte(descriptor)) return FrameError("truncated header", 4);
  HF_RETURN_IF_ERROR(CheckDescriptor(descriptor));
  const bool single_segment = descriptor & kSingleSegment;
  const int field_bytes = ContentSizeFieldBytes(descriptor);
  uint64_t content_bytes = 0;
  if ((!single_segment && !cursor.ReadByte(window)) ||
      !ReadLittle(cursor, field_bytes, content_bytes)) {
    return FrameError("truncated header", cursor.offset());
  }
  // RFC 8878: a field of 2 bytes holds the size minus 256, since smaller sizes
  // fit in one byte.
  if (field_bytes == 2) content_bytes += 256;

  Header header;
  header.info.header_bytes = cursor.offset();
  header.info.has_checksum = descriptor & kHasChecksum;
  if (field_bytes > 0) header.info.content_bytes = content_bytes;
  header.info.window_bytes =
      single_segment ? content_bytes : WindowBytes(window);
  // No block is larger than the window, whatever its header says.
  header.block_bytes_max =
      std::min<uint64_t>(kZstdBlockBytesMax, header.info.window_bytes);
  return header;
}

template <typename AnyCursor>
bool ReadBlockHeader(AnyCursor& cursor, Block& block) {
  uint64_t bits;
  if (!ReadLittle(cursor, kZstdBlockHeaderBytes, bits)) return false;
  block.last = bits & 1;
  block.type = static_cast<ZstdBlockType>(bits >> 1 & 3);
  block.size = static_cast<uint32_t>(bits >> 3);
  return true;
}

template <typename AnyCursor>
Status WalkBlocks(AnyCursor& cursor, Header& header) {
  Block block;
  while (!block.last) {
    const uint64_t offset = cursor.offset();
    if (!ReadBlockHeader(cursor, block)) {
      return FrameError("truncated block header", offset);
    }
    if (block.type == ZstdBlockType::kReserved)
      return FrameError("reserved block", offset);
    if (block.size > header.block_bytes_max) {
      return FrameError("block too large (got " + std::to_string(block.size) +
                            ", want at most " +
                            std::to_string(header.block_bytes_max) + ")",
                        offset);
    }
    if (!Skip(cursor, block.stored_bytes())) {
      return FrameError("truncated block", offset);
    }
    const bool compressed = block.type == ZstdBlockType::kCompressed;
    header.info.stored &= !compressed;
    // A compressed block decodes to at most block_bytes_max; other blocks state
    // their exact size.
    header.info.decoded_bytes_max +=
        compressed ? header.block_bytes_max : block.size;
  }
  return Status();
}

Status CheckContentSize(const ZstdFrameInfo& info) {
  if (!info.content_bytes) return Status();
  const uint64_t claimed = *info.content_bytes;
  const uint64_t max = info.decoded_bytes_max;
  if (claimed <= max && (!info.stored || claimed == max)) return Status();
  return FrameError("content size differs from the blocks (got " +
                        std::to_string(claimed) + ", blocks hold " +
                        std::to_string(max) + ")",
                    info.header_bytes);
}

// Calls fn(block header, raw bytes) for each block of a stored frame. An empty
// frame has one empty block.
template <typename Fn>
void ForEachStoredBlock(std::string_view content, const Fn& fn) {
  Block block;
  do {
    const std::string_view raw = content.substr(0, kZstdBlockBytesMax);
    content.remove_prefix(raw.size());
    block.last = content.empty();
    block.size = static_cast<uint32_t>(raw.size());
    fn(block, raw);
  } while (!block.last);
}

// Returns the size of the frame header, the block headers and the checksum.
size_t StoredOverheadBytes(uint64_t content_bytes, bool checksum) {
  char header[kHeaderBytesMax];
  const uint64_t block_count = std::max<uint64_t>(
      1, (content_bytes + kZstdBlockBytesMax - 1) / kZstdBlockBytesMax);
  return WriteZstdFrameHeader(content_bytes, checksum, header) +
         block_count * kZstdBlockHeaderBytes +
         (checksum ? kZstdChecksumBytes : 0);
}

void StoreChecksum(const Xxh64& hash, char* out) {
  StoreLittle(out, static_cast<uint32_t>(hash.Digest()));
}

Status CheckChecksum(const Xxh64& hash, Cursor& cursor) {
  const auto computed = static_cast<uint32_t>(hash.Digest());
  const size_t offset = cursor.offset();
  uint32_t stored = 0;
  if (cursor.ReadU32Little(stored) && stored == computed) return Status();
  return FrameError("content checksum mismatch", offset);
}

template <typename AnyCursor>
Result<ZstdFrameInfo> Inspect(AnyCursor& cursor) {
  HF_ASSIGN_OR_RETURN(Header header, ReadHeader(cursor));
  HF_RETURN_IF_ERROR(WalkBlocks(cursor, header));
  if (header.info.has_checksum && !Skip(cursor, kZstdChecksumBytes)) {
    return FrameError("truncated checksum", cursor.offset());
  }
  if (cursor.remaining() > 0) {
    return FrameError("bytes after the frame (got " +
                          std::to_string(cursor.remaining()) + ", want 0)",
                      cursor.offset());
  }
  HF_RETURN_IF_ERROR(CheckContentSize(header.info));
  return header.info;
}

}  // namespace

Result<ZstdFrameInfo> InspectZstdFrame(std::string_view in) {
  Cursor cursor(in);
  return Inspect(cursor);
}

Result<ZstdFrameInfo> InspectZstdFrame(EncodedSource& in) {
  SourceCursor cursor(in);
  Result<ZstdFrameInfo> info = Inspect(cursor);
  HF_RETURN_IF_ERROR(cursor.status());
  return info;
}

Result<ZstdFrameInfo> InspectZstdHeader(std::string_view head) {
  Cursor cursor(head);
  HF_ASSIGN_OR_RETURN(const Header header, ReadHeader(cursor));
  return header.info;
}

size_t WriteZstdFrameHeader(uint64_t content_bytes, bool checksum, char* out) {
  const bool single_segment = content_bytes <= kSingleSegmentBytesMax;
  const int flag = content_bytes < 256           ? 0
                   : content_bytes < 65536 + 256 ? 1
                   : content_bytes >> 32 == 0    ? 2
                                                 : 3;
  const auto descriptor =
      static_cast<uint8_t>(flag << 6 | (single_segment ? kSingleSegment : 0) |
                           (checksum ? kHasChecksum : 0));
  char* p = out;
  StoreLittle(p, kMagic);
  p += sizeof kMagic;
  StoreLittle(p++, descriptor);
  if (!single_segment) StoreLittle(p++, kOneBlockWindow);
  const uint64_t field = flag == 1 ? content_bytes - 256 : content_bytes;
  const int field_bytes = ContentSizeFieldBytes(descriptor);
  std::memcpy(p, &field, field_bytes);
  return p + field_bytes - out;
}

size_t WriteZstdBlockHeader(ZstdBlockType type, size_t size, bool is_last,
                            char* out) {
  const uint32_t bits = uint32_t{is_last} | static_cast<uint32_t>(type) << 1 |
                        static_cast<uint32_t>(size) << 3;
  std::memcpy(out, &bits, kZstdBlockHeaderBytes);
  return kZstdBlockHeaderBytes;
}

Status StoredZstdChecksumError(uint64_t frame_bytes) {
  return FrameError("content checksum mismatch",
                    frame_bytes - kZstdChecksumBytes);
}

size_t StoredZstdFrameBytes(uint64_t content_bytes, bool checksum) {
  return content_bytes + StoredOverheadBytes(content_bytes, checksum);
}

// Copies and hashes block by block, so that a block is hashed while it is in
// the cache.
size_t WriteStoredZstdFrame(std::string_view content, bool checksum,
                            std::span<char> out) {
  assert(out.size() >= StoredZstdFrameBytes(content.size(), checksum));
  char* p =
      out.data() + WriteZstdFrameHeader(content.size(), checksum, out.data());
  Xxh64 hash;
  ForEachStoredBlock(content, [&](const Block& block, std::string_view raw) {
    p += WriteZstdBlockHeader(block.type, block.size, block.last, p);
    if (!raw.empty()) std::memcpy(p, raw.data(), raw.size());
    p += raw.size();
    if (checksum) hash.Update(raw);
  });
  if (checksum) {
    StoreChecksum(hash, p);
    p += kZstdChecksumBytes;
  }
  return p - out.data();
}

EncodedChunk StoredZstdFramePieces(std::string_view content, bool checksum,
                                   size_t spare_bytes) {
  EncodedChunk chunk;
  chunk.byte_count = StoredZstdFrameBytes(content.size(), checksum);
  chunk.storage = Buffer(chunk.byte_count - content.size() + spare_bytes);
  char* start = chunk.storage.data();  // of the current piece
  char* p = start + WriteZstdFrameHeader(content.size(), checksum, start);
  Xxh64 hash;
  ForEachStoredBlock(content, [&](const Block& block, std::string_view raw) {
    p += WriteZstdBlockHeader(block.type, block.size, block.last, p);
    chunk.pieces.emplace_back(start, p - start);
    if (!raw.empty()) chunk.pieces.push_back(raw);
    start = p;
    if (checksum) hash.Update(raw);
  });
  if (checksum) {
    StoreChecksum(hash, p);
    chunk.pieces.emplace_back(p, kZstdChecksumBytes);
  }
  return chunk;
}

ZstdFrameWriter::ZstdFrameWriter(uint64_t content_bytes, bool checksum,
                                 WriteZstdBlockFn write_block,
                                 const WriteFn& write)
    : content_bytes_(content_bytes),
      checksum_(checksum),
      write_block_(std::move(write_block)),
      write_(write) {}

// Returns the most bytes that AddBlock may append to written_ for
// `content_bytes` bytes of content, including carry_.
size_t ZstdFrameWriter::CodedBytesMax(size_t content_bytes) const {
  const size_t block_count = content_bytes / kZstdBlockBytesMax + 2;
  const size_t block_bytes = write_block_ ? kZstdBlockBytesMax : 0;
  return kHeaderBytesMax + block_count * (kZstdBlockHeaderBytes + block_bytes);
}

// REQUIRES: written_ has room, since the pieces point into it.
void ZstdFrameWriter::AddBlock(std::string_view raw,
                               std::vector<std::string_view>& pieces) {
  const size_t start = written_.size();
  if (!has_header_) {
    written_.resize(start + kHeaderBytesMax);
    written_.resize(start + WriteZstdFrameHeader(content_bytes_, checksum_,
                                                 written_.data() + start));
    has_header_ = true;
  }
  done_bytes_ += raw.size();
  Block block;
  block.last = done_bytes_ == content_bytes_;
  block.size = static_cast<uint32_t>(raw.size());
  const bool is_coded = write_block_ && !raw.empty();
  const size_t at = written_.size();
  written_.resize(at + kZstdBlockHeaderBytes + (is_coded ? raw.size() : 0));
  if (is_coded) {
    written_.resize(at + write_block_(raw, block.last, written_.data() + at));
  } else {
    WriteZstdBlockHeader(block.type, block.size, block.last,
                         written_.data() + at);
  }
  pieces.emplace_back(written_.data() + start, written_.size() - start);
  if (!is_coded && !raw.empty()) pieces.push_back(raw);
  if (checksum_) hash_.Update(raw);
}

Status ZstdFrameWriter::Append(std::string_view content) {
  written_.clear();
  written_.reserve(CodedBytesMax(content.size()));
  std::vector<std::string_view> pieces;
  const auto is_last = [&](size_t more) {
    return done_bytes_ + more == content_bytes_;
  };
  // Blocks have a fixed size, so that the bytes do not depend on the pieces.
  // The rest of a piece waits in carry_.
  if (!carry_.empty()) {
    const std::string_view more =
        content.substr(0, kZstdBlockBytesMax - carry_.size());
    carry_ += more;
    content.remove_prefix(more.size());
    if (carry_.size() < kZstdBlockBytesMax && !is_last(carry_.size())) {
      return Status();
    }
    AddBlock(carry_, pieces);
  }
  while (content.size() >= kZstdBlockBytesMax ||
         (!content.empty() && is_last(content.size()))) {
    const std::string_view raw = content.substr(0, kZstdBlockBytesMax);
    AddBlock(raw, pieces);
    content.remove_prefix(raw.size());
  }
  if (!pieces.empty()) HF_RETURN_IF_ERROR(write_(pieces));
  carry_ = content;
  return Status();
}

Status ZstdFrameWriter::Finish() {
  written_.clear();
  written_.reserve(kHeaderBytesMax + kZstdBlockHeaderBytes);
  std::vector<std::string_view> pieces;
  if (!has_header_) AddBlock({}, pieces);  // an empty frame has one block
  assert(done_bytes_ == content_bytes_);
  char digest[kZstdChecksumBytes];
  if (checksum_) {
    StoreChecksum(hash_, digest);
    pieces.emplace_back(digest, kZstdChecksumBytes);
  }
  return write_(pieces);
}

Status DecodeStoredZstdFrame(std::string_view in, const ZstdFrameInfo& info,
                             std::span<char> out) {
  assert(info.stored && out.size() == info.decoded_bytes_max);
  Cursor cursor(in);
  std::string_view data;
  Block block;
  Xxh64 hash;
  char* p = out.data();
  if (!cursor.ReadBytes(info.header_bytes, data)) {
    return FrameError("truncated header", 0);
  }
  while (!block.last) {
    if (!ReadBlockHeader(cursor, block) ||
        !cursor.ReadBytes(block.stored_bytes(), data)) {
      return FrameError("truncated block", cursor.offset());
    }
    // An empty block has no byte that an RLE block could repeat.
    if (block.size == 0) continue;
    if (block.type == ZstdBlockType::kRun) {
      std::memset(p, data[0], block.size);
    } else {
      std::memcpy(p, data.data(), block.size);
    }
    if (info.has_checksum) hash.Update({p, block.size});
    p += block.size;
  }
  return info.has_checksum ? CheckChecksum(hash, cursor) : Status();
}

}  // namespace holdfast
