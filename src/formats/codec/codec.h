// Codecs, which encode a chunk to bytes and decode it again.
//
// The codec chain of a chunk (in zarr v2 and v3 alike) is: transposes, then one
// array->bytes step (`bytes`, or sharding_indexed, which is in zarr/), then any
// number of bytes->bytes codecs. See doc/zarr.md.
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

  // Large zstd frames check this token between pieces and fail with Cancelled.
  // The token is borrowed. With null (the default), the work is never
  // cancelled.
  void set_cancel(const CancelToken* cancel);

  // If true, the caller has compared all bytes to decode with a checksum of its
  // own, so codecs need not check the checksums inside their streams. If false
  // (the default), they check these.
  void set_bytes_are_known(bool are_known);

  // Frees scratch buffers of more than `kept_bytes_max` bytes.
  void TrimScratch(size_t kept_bytes_max);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// A context for each worker of an Executor, created on first use. Workers may
// call Of concurrently, each with its own index. Borrows the token.
class WorkerContexts {
 public:
  WorkerContexts(int worker_count, const CancelToken* cancel)
      : contexts_(static_cast<size_t>(worker_count)), cancel_(cancel) {}

  CodecContext& Of(int worker);

 private:
  std::vector<std::unique_ptr<CodecContext>> contexts_;
  const CancelToken* const cancel_;
};

// Parameters, one struct per codec. Defaults are those of the zarr specs.
struct ZstdParams {
  int level = 1;
  // A checksum in each frame lets any reader find damage. It is a property of
  // the frame, not of the zarr metadata (v2 has no field for it).
  bool checksum = true;
  bool operator==(const ZstdParams&) const = default;
};
struct BloscParams {
  std::string cname = "lz4";
  int clevel = 5;
  // 0: none, 1: byte shuffle, 2: bit shuffle. -1: 2 for 1-byte items, otherwise
  // 1.
  int shuffle = -1;
  size_t blocksize = 0;
  size_t typesize = 0;  // 0: the item size of the array
  // Writes frames of byte planes (blosc_planes.h), which any reader of blosc
  // accepts. Needs zstd and byte shuffle. This is a property of the streams;
  // zarr metadata have no field for it.
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
  // Returns "zstd", "blosc", "gzip", "zlib" or "crc32c".
  virtual std::string_view name() const = 0;
  virtual size_t EncodedBytesMax(size_t decoded_bytes) const = 0;
  // Returns the most bytes that `in` can decode to, and so the memory that it
  // justifies. The result depends on the size of `in`, not on the sizes that
  // `in` claims.
  virtual uint64_t DecodedBytesMax(std::string_view in) const = 0;
  // Returns the number of bytes written. REQUIRES: out.size() >=
  // EncodedBytesMax.
  virtual Result<size_t> Encode(std::string_view in, std::span<char> out,
                                CodecContext& context) const = 0;
  // Decodes one complete stream to exactly out.size() bytes. A shorter, longer
  // or second stream and trailing bytes are DataLoss.
  virtual Status Decode(std::string_view in, std::span<char> out,
                        CodecContext& context) const = 0;
  // Like Decode, but only `wanted` must be right in `out`: a codec that can
  // skip the rest neither decodes nor checks it.
  // REQUIRES: wanted.first <= wanted.last <= out.size().
  virtual Status DecodeRange(std::string_view in, std::span<char> out,
                             DecodedRange /*wanted*/,
                             CodecContext& context) const {
    return Decode(in, out, context);
  }
  // Like Decode, for callers that know only a bound on the decoded size. The
  // result may be a slice of `in`.
  virtual Result<Bytes> DecodeBounded(std::string_view in,
                                      size_t decoded_bytes_max,
                                      CodecContext& context) const = 0;
};

// `item_bytes` is the array's element size (blosc's typesize).
// Errors: InvalidArgument for a parameter outside its range, with its name.
Result<std::shared_ptr<const BytesCodec>> MakeBytesCodec(
    const BytesCodecParams& params, size_t item_bytes);

// The encoded bytes of one chunk: the concatenation of `pieces`. Pieces point
// into `storage`, or into the memory of the array, if nothing had to be copied.
struct EncodedChunk {
  Buffer storage;
  std::vector<std::string_view> pieces;
  size_t byte_count = 0;
};

// A complete chain for chunks of one shape and dtype.
class ChunkCodec {
 public:
  virtual ~ChunkCodec() = default;

  // Encodes one chunk. `chunk` is the part inside the array, which starts at
  // the chunk's origin. If it is smaller than the chunk shape, the rest is
  // padded with the fill value.
  virtual Result<EncodedChunk> Encode(const ConstArrayView& chunk,
                                      CodecContext& context) const = 0;

  // Decodes into `target` the part of the chunk that starts at `origin`
  // (elements within the chunk) and has the shape of `target`. All checksums
  // inside the encoded chunk are compared, except for blosc, whose blocks are
  // read one by one.
  virtual Status Decode(std::string_view encoded, const Shape& origin,
                        const ArrayView& target,
                        CodecContext& context) const = 0;

  // Returns whether chunks can be encoded and decoded in pieces. blosc, gzip
  // and chains of several codecs need the complete chunk. If false, the two
  // functions below must not be called.
  virtual bool is_streamable() const = 0;

  // Like Encode, but holds about 2 x `piece_bytes` at a time. The bytes depend
  // neither on piece_bytes nor on the machine. They equal Encode's if the
  // elements are contiguous.
  virtual Status EncodeStream(const ChunkElements& chunk, size_t piece_bytes,
                              const WriteFn& write,
                              CodecContext& context) const = 0;

  // Like Decode, with the same errors, but reads windows of `piece_bytes`.
  // Returns false, without having read anything into the target, if the stored
  // bytes need more memory than a stream should use; then call Decode.
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

// Errors: InvalidArgument for a bad permutation or parameter, or if the chunk's
// byte size overflows, so Encode and Decode need not check it.
Result<std::shared_ptr<const ChunkCodec>> MakePlainChunkCodec(
    const PlainChainParams& params);

// Decodes with bytes->bytes codecs only (for shard indexes), to out.size()
// bytes.
Status DecodeBytesChain(
    std::span<const std::shared_ptr<const BytesCodec>> codecs,
    std::string_view in, std::span<char> out, CodecContext& context);

}  // namespace holdfast
