// Codecs: how one chunk becomes bytes and comes back.
//
// A chunk's codec chain (zarr v2 and v3 alike) is: transposes, then one
// array->bytes step (`bytes`, or sharding_indexed which lives in zarr/), then
// any number of bytes->bytes codecs. See doc/zarr.md.
//
// Thread-safety: codecs are immutable and may run concurrently; a CodecContext
// belongs to one thread at a time and keeps reusable contexts and scratch.
// Ownership: inputs are borrowed for the call. Units: bytes.
// Errors: DataLoss for damaged input; never reads or writes out of bounds and
// never allocates more than the stated output size.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/codec/chunk_stream.h"
#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast {

// Reusable compression contexts and scratch buffers of one thread.
class CodecContext {
 public:
  CodecContext();
  ~CodecContext();
  CodecContext(const CodecContext&) = delete;
  CodecContext& operator=(const CodecContext&) = delete;

  // This token is asked between pieces of large zstd frames, whose work then
  // ends as Cancelled. Borrowed; null (the default): the work is never
  // cancelled.
  void set_cancel(const CancelToken* cancel);

  // True: whoever gives bytes to decode has compared all of them with a
  // checksum of their own, so that those inside a codec's streams need not be
  // compared again. False (the default): they are.
  void set_bytes_are_known(bool are_known);

  // Gives back scratch buffers of more than `kept_bytes_max` bytes.
  void TrimScratch(size_t kept_bytes_max);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// A context for each worker of an Executor, made when it first asks. Workers
// may call Of at once, each with its own number. Borrows the token.
class WorkerContexts {
 public:
  WorkerContexts(int worker_count, const CancelToken* cancel)
      : contexts_(static_cast<size_t>(worker_count)), cancel_(cancel) {}

  CodecContext& Of(int worker);

 private:
  std::vector<std::unique_ptr<CodecContext>> contexts_;
  const CancelToken* const cancel_;
};

// Parameters, one struct a codec; defaults as the zarr specs have them.
struct ZstdParams {
  int level = 1;
  // Written into each frame so that any reader finds damage. It is a property
  // of the frame, not of zarr metadata (v2 has no word for it).
  bool checksum = true;
  bool operator==(const ZstdParams&) const = default;
};
struct BloscParams {
  std::string cname = "lz4";
  int clevel = 5;
  // 0 none, 1 byte, 2 bit shuffle; -1 is 2 for 1-byte items and 1 otherwise.
  int shuffle = -1;
  size_t blocksize = 0;
  size_t typesize = 0;  // 0: the item size of the array
  // Written as frames of byte planes (blosc_planes.h) that any reader of blosc
  // takes; needs zstd and byte shuffle. A property of the streams, for which
  // zarr metadata have no word.
  bool planes = false;
  bool operator==(const BloscParams&) const = default;
};
struct GzipParams {
  int level = 1;
  bool zlib_header = false;  // numcodecs "zlib" instead of "gzip"
  bool operator==(const GzipParams&) const = default;
};
struct Crc32cParams {
  bool operator==(const Crc32cParams&) const = default;
};
using BytesCodecParams =
    std::variant<ZstdParams, BloscParams, GzipParams, Crc32cParams>;

// The bytes in [first, last) of a decoded chunk.
struct DecodedRange {
  size_t first = 0;
  size_t last = 0;
};

// One bytes->bytes codec.
class BytesCodec {
 public:
  virtual ~BytesCodec() = default;
  // "zstd", "blosc", "gzip", "zlib", "crc32c".
  virtual std::string_view name() const = 0;
  virtual size_t EncodedBytesMax(size_t decoded_bytes) const = 0;
  // The most that `in` can decode to, judged by how many bytes it has and not
  // by what they claim: the memory that it justifies.
  virtual uint64_t DecodedBytesMax(std::string_view in) const = 0;
  // Returns the bytes written. REQUIRES: out.size() >= EncodedBytesMax.
  virtual Result<size_t> Encode(std::string_view in, std::span<char> out,
                                CodecContext& context) const = 0;
  // Decodes one whole stream to exactly out.size() bytes; a shorter, longer or
  // second stream and trailing bytes are DataLoss.
  virtual Status Decode(std::string_view in, std::span<char> out,
                        CodecContext& context) const = 0;
  // As Decode, but only `wanted` needs to be right in `out`: a codec that can
  // leave the rest out neither decodes nor checks it.
  // REQUIRES: wanted.first <= wanted.last <= out.size().
  virtual Status DecodeRange(std::string_view in, std::span<char> out,
                             DecodedRange /*wanted*/,
                             CodecContext& context) const {
    return Decode(in, out, context);
  }
  // As Decode when only a bound of the decoded size is known. The result may
  // be a slice of `in`.
  virtual Result<Bytes> DecodeBounded(std::string_view in,
                                      size_t decoded_bytes_max,
                                      CodecContext& context) const = 0;
};

// `item_bytes` is the element size of the array (blosc's typesize).
// InvalidArgument for parameters outside their range, naming them.
Result<std::shared_ptr<const BytesCodec>> MakeBytesCodec(
    const BytesCodecParams& params, size_t item_bytes);

// The encoded bytes of one chunk: `pieces` back to back. Pieces point into
// `storage`, or at memory of the array that was encoded (nothing was copied).
struct EncodedChunk {
  Buffer storage;
  std::vector<std::string_view> pieces;
  size_t byte_count = 0;
};

// A whole chain for chunks of one shape and dtype.
class ChunkCodec {
 public:
  virtual ~ChunkCodec() = default;

  // Encodes one chunk. `chunk` is the part inside the array, at the chunk's
  // origin; where it is smaller than the chunk shape the rest is padded with
  // the fill value.
  virtual Result<EncodedChunk> Encode(const ConstArrayView& chunk,
                                      CodecContext& context) const = 0;

  // Decodes the part of the chunk that starts at `origin` (elements within the
  // chunk) and has target.shape, into target. Checksums inside the encoded
  // chunk are compared for all of it, but for blosc, whose blocks are read one
  // by one.
  virtual Status Decode(std::string_view encoded, const Shape& origin,
                        const ArrayView& target,
                        CodecContext& context) const = 0;

  // Whether chunks can be encoded and decoded in pieces: blosc, gzip and chains
  // of several codecs need the whole chunk. Where it is false the two calls
  // below are not made.
  virtual bool is_streamable() const = 0;

  // As Encode, holding about 2 x `piece_bytes` at a time. The bytes depend
  // neither on piece_bytes nor on the machine; they are Encode's where the
  // elements lie in one piece.
  virtual Status EncodeStream(const ChunkElements& chunk, size_t piece_bytes,
                              const WriteFn& write,
                              CodecContext& context) const = 0;

  // As Decode, reading windows of `piece_bytes`; errors are Decode's own. False
  // when the stored bytes need more memory than a stream should take: nothing
  // was taken, and Decode is the way.
  virtual Result<bool> DecodeStream(EncodedSource& encoded, size_t piece_bytes,
                                    const DecodedTarget& target,
                                    CodecContext& context) const = 0;
};

enum class Endian : uint8_t { kLittle, kBig };

// The plain chain: transposes + bytes + bytes->bytes codecs.
struct PlainChainParams {
  DType dtype = DType::kUint8;
  Shape chunk_shape;  // elements, before any transpose
  // Encoded dimension i is decoded dimension order[i]; applied first to last.
  std::vector<std::vector<int>> transposes;
  Endian endian = Endian::kLittle;
  std::vector<BytesCodecParams> bytes_codecs;
  std::string fill_element;  // DTypeBytes(dtype) bytes, for padding
};

// InvalidArgument for a bad permutation or parameter; the chunk's byte size is
// checked against overflow here, so Encode and Decode need not.
Result<std::shared_ptr<const ChunkCodec>> MakePlainChunkCodec(
    const PlainChainParams& params);

// Decodes through bytes->bytes codecs only (shard indexes): exact size.
Status DecodeBytesChain(
    std::span<const std::shared_ptr<const BytesCodec>> codecs,
    std::string_view in, std::span<char> out, CodecContext& context);

}  // namespace holdfast
