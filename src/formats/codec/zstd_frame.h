// Zstandard frames (RFC 8878, section 3.1.1): reads their headers and block
// headers without decoding any compressed block, and writes complete frames
// that have raw blocks only ("stored").
//
// Thread-safety: pure functions. Ownership: inputs are borrowed; pieces made by
// StoredZstdFramePieces point at the content. Units: bytes.
// Errors: DataLoss for damaged frames, with the offset.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codec/codec.h"
#include "ground/base/xxh64.h"
#include "holdfast/status.h"

namespace holdfast {

// Block_Maximum_Size of every frame whose window has at least this size.
inline constexpr size_t kZstdBlockBytesMax = size_t{128} << 10;
inline constexpr size_t kZstdBlockHeaderBytes = 3;
inline constexpr size_t kZstdChecksumBytes = 4;

enum class ZstdBlockType : uint8_t { kRaw, kRun, kCompressed, kReserved };

struct ZstdFrameInfo {
  size_t header_bytes = 0;  // magic, descriptor, window, content size
  std::optional<uint64_t> content_bytes;
  // The most that the blocks can decode to; exact when stored.
  uint64_t decoded_bytes_max = 0;
  bool has_checksum = false;
  bool stored = true;  // every block is raw or RLE
  // History that a decoder needs in addition to its output.
  uint64_t window_bytes = 0;
};

// Checks that `in` is exactly one complete data frame, with nothing after it,
// and that its size claims agree with each other. Skippable frames,
// dictionaries and any reserved or unused header bit are DataLoss, so every
// flipped bit of a header is noticed.
Result<ZstdFrameInfo> InspectZstdFrame(std::string_view in);
// Does the same, but reads only headers. Also returns the source's errors.
Result<ZstdFrameInfo> InspectZstdFrame(EncodedSource& in);
// Reads only the frame header. `head` is the start of a frame.
Result<ZstdFrameInfo> InspectZstdHeader(std::string_view head);
// The most bytes that InspectZstdHeader needs.
inline constexpr size_t kZstdHeaderBytesMax = 18;

// Writes the header of a frame whose blocks refer to nothing before them, and
// returns its size. REQUIRES: out has kZstdHeaderBytesMax bytes.
size_t WriteZstdFrameHeader(uint64_t content_bytes, bool checksum, char* out);

// Writes a block header. `size` is the size of the content or, for a compressed
// block, of the bytes that follow. Returns kZstdBlockHeaderBytes.
size_t WriteZstdBlockHeader(ZstdBlockType type, size_t size, bool is_last,
                            char* out);

// Returns the size of the stored frame of `content_bytes` bytes.
size_t StoredZstdFrameBytes(uint64_t content_bytes, bool checksum);

// Writes the stored frame of `content` and returns its size.
// REQUIRES: out.size() >= StoredZstdFrameBytes().
size_t WriteStoredZstdFrame(std::string_view content, bool checksum,
                            std::span<char> out);

// Makes the same frame as pieces, without copying the content. Headers and the
// checksum go to a new chunk.storage, which has `spare_bytes` unused bytes at
// its end.
EncodedChunk StoredZstdFramePieces(std::string_view content, bool checksum,
                                   size_t spare_bytes);

// Writes the block of `raw` to `out` and returns the block's size, at most
// raw.size() + kZstdBlockHeaderBytes.
using WriteZstdBlockFn =
    std::function<size_t(std::string_view raw, bool is_last, char* out)>;

// Writes a frame in pieces. The bytes do not depend on the sizes of the pieces.
class ZstdFrameWriter {
 public:
  // `write_block` codes a block. If it is empty, blocks stay raw, so nothing is
  // copied.
  ZstdFrameWriter(uint64_t content_bytes, bool checksum,
                  WriteZstdBlockFn write_block, const WriteFn& write);
  // REQUIRES: all calls together append `content_bytes` bytes.
  Status Append(std::string_view content);
  // Must be called after the last Append.
  Status Finish();

 private:
  void AddBlock(std::string_view raw, std::vector<std::string_view>& pieces);
  size_t CodedBytesMax(size_t content_bytes) const;

  const uint64_t content_bytes_;
  const bool checksum_;
  const WriteZstdBlockFn write_block_;
  const WriteFn& write_;
  uint64_t done_bytes_ = 0;  // in blocks already added
  bool has_header_ = false;
  std::string written_;  // everything but content: headers, coded blocks
  std::string carry_;    // the start of a block
  Xxh64 hash_;
};

// Returns the error for a stored frame that does not decode. The only possible
// cause is the checksum.
Status StoredZstdChecksumError(uint64_t frame_bytes);

// Decodes a frame that InspectZstdFrame reported as `stored`, and checks the
// checksum. REQUIRES: out.size() == info.decoded_bytes_max.
Status DecodeStoredZstdFrame(std::string_view in, const ZstdFrameInfo& info,
                             std::span<char> out);

}  // namespace holdfast
