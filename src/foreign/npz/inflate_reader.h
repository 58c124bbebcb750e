// An ArrayReader for an array in a deflated stream.
//
// Elements in C order are inflated as far as requested. Requests in C order
// inflate everything once, in little memory; a request further back starts
// again from the beginning. An array in another order is inflated completely on
// the first request, and kept. A stream that is inflated from beginning to end
// is checked against its CRC.
//
// Thread-safety: as ArrayReader; one thread inflates at a time. Ownership:
// shares the store. Units: bytes. Errors: DataLoss.
#pragma once

#include <memory>
#include <string>

#include "foreign/npz/npy_header.h"
#include "holdfast/tree.h"
#include "stores/storage/store.h"

namespace holdfast {

struct DeflatedStream {
  std::shared_ptr<Store> store;
  std::string file;
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;
  uint64_t byte_count = 0;  // inflated
  uint32_t crc32 = 0;       // of all inflated bytes
};

// Returns the first bytes of the stream, at most `byte_count`.
Result<std::string> InflateStart(const DeflatedStream& stream,
                                 uint64_t byte_count);

// Inflates the complete stream. DataLoss when the result has another size or
// CRC.
Status CheckDeflated(const DeflatedStream& stream);

std::shared_ptr<const ArrayReader> MakeInflateReader(DeflatedStream stream,
                                                     NpyHeader header);

}  // namespace holdfast
