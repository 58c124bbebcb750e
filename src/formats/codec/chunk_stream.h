// Encodes and decodes chunks piece by piece, for chunks that are too large to
// hold in memory. This header has the sources and targets of elements and of
// encoded bytes.
//
// A piece is a run of complete rows (RowPieceShape). In C order, pieces follow
// each other in the contiguous chunk.
// Thread-safety: one thread at a time. Ownership: memory passed to a call is
// borrowed for that call, unless a comment says that it stays.
// Units: bytes; boxes in elements, within the chunk.
// Errors: those of the implementations; an error ends the stream.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "ground/tensor/box.h"
#include "holdfast/status.h"

namespace holdfast {

// Consumes the next encoded bytes.
using WriteFn = std::function<Status(std::span<const std::string_view> pieces)>;

// The elements of one chunk to be encoded: the part inside the array, which
// starts at the chunk's origin.
struct ChunkElements {
  DType dtype = DType::kUint8;
  Shape shape;
  // The elements, in memory that stays until the chunk is encoded. If the
  // view's data is null, `copy` fetches the elements.
  ConstArrayView view;
  // Copies the elements at `box` into `target`.
  std::function<Status(const Box& box, const ArrayView& target)> copy;
  // Unless empty, is called with the elements that `copy` returned for the
  // encoded bytes, once for each element. (`copy` also fetches samples to
  // choose a strategy.)
  std::function<void(const Box& box, const ConstArrayView& elements)> passed =
      {};
};

// The stored bytes of one chunk, read at any offset.
class EncodedSource {
 public:
  virtual ~EncodedSource() = default;
  virtual uint64_t byte_count() const = 0;
  // REQUIRES: offset + target.size() <= byte_count().
  virtual Status ReadAt(uint64_t offset, std::span<char> target) = 0;
};

// A part of another source.
class EncodedPart final : public EncodedSource {
 public:
  EncodedPart(EncodedSource& whole, uint64_t offset, uint64_t byte_count)
      : whole_(whole), offset_(offset), byte_count_(byte_count) {}
  uint64_t byte_count() const override { return byte_count_; }
  Status ReadAt(uint64_t offset, std::span<char> target) override {
    return whole_.ReadAt(offset_ + offset, target);
  }

 private:
  EncodedSource& whole_;
  const uint64_t offset_;
  const uint64_t byte_count_;
};

// Consumes the decoded elements at `box`.
using TakePieceFn =
    std::function<Status(const Box& box, const ConstArrayView& elements)>;

// The destination of decoded elements.
struct DecodedTarget {
  // Memory for the complete chunk, including padding. If null, `take` receives
  // the pieces in order, cut to `part`.
  char* whole = nullptr;
  TakePieceFn take;
  Box part;
};

// Decoded bytes on their way to a target, in order. Codecs use this.
class DecodedSink {
 public:
  virtual ~DecodedSink() = default;
  virtual uint64_t byte_count() const = 0;
  // Returns memory for all bytes. If null, the bytes are written piece by
  // piece.
  virtual char* whole() = 0;
  // Returns memory for the next piece, or an empty span after the last piece.
  // REQUIRES: whole() is null.
  virtual std::span<char> NextPiece() = 0;
  // Consumes the piece that NextPiece returned, which is now full.
  virtual Status TakePiece() = 0;
};

// Returns the next bytes of a stream, valid until the next call, or an empty
// view at the end.
using NextBytesFn = std::function<Result<std::string_view>()>;

}  // namespace holdfast
