// How one chunk of a tensor becomes that of the next step.
//
// A coded chunk is empty (nothing changed), or a byte that says how it is coded
// and the rest: what few words changed (formats/delta/sparse_delta.h); the
// differences of all words; or all new words. The latter two are byte planes,
// as tensors are stored elsewhere: blosc with zstd, or only zstd for small
// chunks and words of one byte.
//
// Thread-safety: an object belongs to one thread. Ownership: arguments are
// borrowed. Units: bytes. Errors: DataLoss for what an encoder would not have
// written; the words are then unspecified. Nothing is read or written beyond
// them, and no memory is taken that the coded bytes or the words do not
// justify.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codec/codec.h"
#include "formats/delta/sparse_delta.h"
#include "ground/base/bytes.h"
#include "holdfast/dtype.h"
#include "holdfast/status.h"

namespace holdfast {

// Complex numbers are two words.
WordKind WordKindOf(DType dtype);
// Tells one content of a chunk from another. Source: doc/deltas.md.
uint64_t ChunkHash(std::string_view words);

class ChunkDelta {
 public:
  // next - base. REQUIRES: equal sizes, of whole words, below kDeltaWordsMax.
  Result<std::string> Encode(const WordKind& kind, std::string_view base,
                             std::string_view next);
  // words = base -> next, in place.
  Status Apply(const WordKind& kind, std::string_view coded,
               std::span<char> words);

 private:
  Result<std::string> EncodeWhole(const WordKind& kind, std::string_view words);
  Status DecodeWhole(const WordKind& kind, std::string_view coded,
                     std::span<char> words);

  SparseDelta sparse_;
  CodecContext context_;
  Buffer scratch_;
};

// One for each worker of a loop, made when it first asks.
class WorkerDeltas {
 public:
  explicit WorkerDeltas(int worker_count)
      : deltas_(static_cast<size_t>(worker_count)) {}

  ChunkDelta& Of(int worker) {
    std::unique_ptr<ChunkDelta>& delta = deltas_[static_cast<size_t>(worker)];
    if (delta == nullptr) delta = std::make_unique<ChunkDelta>();
    return *delta;
  }

 private:
  std::vector<std::unique_ptr<ChunkDelta>> deltas_;
};

// Where two contents of a chunk differ, ascending. REQUIRES: equal sizes, of
// whole elements of 1, 2, 4, 8 or 16 bytes, and fewer than kDeltaWordsMax.
std::vector<uint32_t> FindChanges(size_t element_bytes, std::string_view a,
                                  std::string_view b);

}  // namespace holdfast
