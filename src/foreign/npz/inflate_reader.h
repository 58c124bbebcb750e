// An array in a deflated stream, as an ArrayReader.
//
// Elements in C order are inflated as far as they are asked for; asking in C
// order inflates everything once, in little memory, and going back begins anew.
// An array in another order is inflated whole when it is first asked for, and
// kept. A stream that is inflated from its begin to its end is checked against
// its CRC.
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

// The first bytes of the stream, at most `byte_count`.
Result<std::string> InflateStart(const DeflatedStream& stream,
                                 uint64_t byte_count);

// Inflates all of it. DataLoss when the result is not as the stream says.
Status CheckDeflated(const DeflatedStream& stream);

std::shared_ptr<const ArrayReader> MakeInflateReader(DeflatedStream stream,
                                                     NpyHeader header);

}  // namespace holdfast
