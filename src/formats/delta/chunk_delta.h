// The change of one chunk of a tensor from one step to the next.
//
// A coded chunk is empty if nothing changed. Otherwise its first byte says how
// it is coded, and the rest has one of these forms: the changes of the few
// words that changed (formats/delta/sparse_delta.h), the differences of all
// words, or all new words. Differences of all words and new words are byte
// planes, as in tensors that are stored elsewhere: blosc with zstd, or only
// zstd for small chunks and words of one byte.
//
// Thread-safety: an object belongs to one thread. Ownership: arguments are
// borrowed. Units: bytes. Errors: DataLoss for bytes that an encoder would not
// have written; the words are then unspecified. Nothing is read or written
// beyond the words, and no memory is allocated that the coded bytes or the
// words do not justify.
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

// Returns the kind of the dtype's words. A complex number is two words.
WordKind WordKindOf(DType dtype);
// Returns a hash of a chunk's content. Source: doc/deltas.md.
uint64_t ChunkHash(std::string_view words);

class ChunkDelta {
 public:
  // Encodes next - base. REQUIRES: equal sizes, in complete words, fewer than
  // kDeltaWordsMax.
  Result<std::string> Encode(const WordKind& kind, std::string_view base,
                             std::string_view next);
  // Turns `words` from the base into the next step, in place.
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

// A ChunkDelta for each worker of a loop, created on first use.
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

// Returns the indices of the elements in which two contents of a chunk differ,
// ascending. REQUIRES: equal sizes, in complete elements of 1, 2, 4, 8 or 16
// bytes, fewer than kDeltaWordsMax.
std::vector<uint32_t> FindChanges(size_t element_bytes, std::string_view a,
                                  std::string_view b);

}  // namespace holdfast
