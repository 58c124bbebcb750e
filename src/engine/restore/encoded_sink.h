// EncodedSink: takes stored chunks as they are, so that somebody else decodes
// them: a device (engine/device). EncodedReads: an additional interface of
// Checkpoints that can hand chunks over.
//
// Thread-safety: a read calls its sink from all of its threads. Ownership: all
// is borrowed for the call. Units: bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

// One blosc container, whose elements all belong to one target in the stored
// dtype. Its bytes were compared with those of the list of checksums, if there
// is one.
struct StoredContainer {
  std::string_view bytes;
  // Whether the list had a checksum of all these bytes.
  bool are_known = false;
  Box box;  // in the leaf
  // The target's memory for the decoded elements, which are contiguous, in C
  // order. `bytes` may lie in it.
  char* elements = nullptr;
  uint64_t decoded_bytes = 0;
};

class EncodedSink {
 public:
  virtual ~EncodedSink() = default;
  // Returns whether Take may take chunks of this target. The answer stays the
  // same during a read. If it is true, the sink's owner compares fingerprints,
  // and the read does not.
  virtual bool Wants(const ArrayView& target) const = 0;
  // Returns whether it took the chunk. If not, the read decodes it. The sink
  // may write to the elements' memory only if it takes the chunk.
  virtual bool Take(const StoredContainer& chunk) = 0;
};

class EncodedReads {
 public:
  virtual ~EncodedReads() = default;
  // As Checkpoint::ReadInto, but for the chunks that the sink takes.
  // REQUIRES: the requests pass CheckRequest and have elements.
  virtual Result<Stats> ReadEncoded(const std::vector<ReadRequest>& requests,
                                    const RunOptions& run,
                                    EncodedSink& sink) const = 0;
};

}  // namespace holdfast
