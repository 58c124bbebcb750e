// Chunks too large to be held whole, encoded and decoded piece by piece: where
// the elements come from, where the bytes go, and the other way round.
//
// A piece is a run of whole rows (RowPieceShape): pieces in C order follow each
// other in the contiguous chunk.
// Thread-safety: one thread at a time. Ownership: memory that is handed over is
// borrowed for the call, unless it is said to stay.
// Units: bytes; boxes in elements, within the chunk.
// Errors: those of who implements them; they end the stream.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "ground/tensor/box.h"
#include "holdfast/status.h"

namespace holdfast {

// Takes the next encoded bytes.
using WriteFn = std::function<Status(std::span<const std::string_view> pieces)>;

// The elements of one chunk to be encoded: the part inside the array, at the
// chunk's origin.
struct ChunkElements {
  DType dtype = DType::kUint8;
  Shape shape;
  // The elements, in memory that stays until the chunk is encoded; with null
  // data they are fetched by `copy`.
  ConstArrayView view;
  // target = the elements at `box`.
  std::function<Status(const Box& box, const ArrayView& target)> copy;
  // Unless empty: told of what `copy` gave for the encoded bytes, each element
  // once. (It also gives samples, by which a strategy is chosen.)
  std::function<void(const Box& box, const ConstArrayView& elements)> passed =
      {};
};

// The stored bytes of one chunk, read where they are wanted.
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

// Takes the decoded elements at `box`.
using TakePieceFn =
    std::function<Status(const Box& box, const ConstArrayView& elements)>;

// Where decoded elements go.
struct DecodedTarget {
  // Memory of the whole chunk, padding included; null: `take` gets the pieces
  // in order, cut to `part`.
  char* whole = nullptr;
  TakePieceFn take;
  Box part;
};

// Decoded bytes on their way to a target, in order. For codecs.
class DecodedSink {
 public:
  virtual ~DecodedSink() = default;
  virtual uint64_t byte_count() const = 0;
  // Memory of all bytes; null: they are asked for piece by piece.
  virtual char* whole() = 0;
  // Memory of the next piece; empty after the last. REQUIRES: no whole().
  virtual std::span<char> NextPiece() = 0;
  // The piece that NextPiece gave is full.
  virtual Status TakePiece() = 0;
};

// The next bytes of a stream, good until the next call; empty at its end.
using NextBytesFn = std::function<Result<std::string_view>()>;

}  // namespace holdfast
