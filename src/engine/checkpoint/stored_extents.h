// StoredExtents: what a Checkpoint also is whose arrays lie in files as they
// are in memory: it tells where.
//
// Views refer to those bytes instead of copying them.
// Thread-safety, ownership: as the Checkpoint's.
// Units: elements; bytes where named so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/format/digest_file.h"
#include "engine/restore/array_home.h"
#include "engine/restore/raw_array.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

// Where the elements of one leaf lie.
struct LeafExtents {
  // Why the elements cannot be referred to ("compressed with zstd"); empty:
  // they can.
  std::string why_not;
  // Disjoint boxes that cover the leaf. Extent::file is a path or URL here.
  std::vector<Extent> extents;
};

class StoredExtents {
 public:
  virtual ~StoredExtents() = default;
  // `leaf` is an array with elements, and can be read. Reads metadata at most.
  // Errors: those of that metadata.
  virtual Result<LeafExtents> ExtentsOf(size_t leaf) const = 0;
  // The checksums that the checkpoint itself keeps of a range of one of its
  // files; null where it has none of exactly these bytes, or was opened without
  // them. Borrowed from the checkpoint.
  virtual const ValueDigest* DigestOf(const std::string& /*file*/,
                                      uint64_t /*offset*/,
                                      uint64_t /*byte_count*/) const {
    return nullptr;
  }
};

// The extents of leaf `leaf` of any checkpoint; one that is no StoredExtents
// says why not.
Result<LeafExtents> ExtentsOf(const Checkpoint& checkpoint, size_t leaf);
const ValueDigest* DigestOf(const Checkpoint& checkpoint,
                            const std::string& file, uint64_t offset,
                            uint64_t byte_count);

// Those of a zarr array, a chunk each.
Result<LeafExtents> ExtentsOfChunks(const ArrayHome& home,
                                    const ReadableArray& array);

// Where all elements of a leaf lie one after the other in one file, as they are
// in memory.
struct PlainRun {
  std::string why_not;  // empty: they do
  std::string file;
  uint64_t offset = 0;
};
// REQUIRES: an array with elements; extents that are disjoint boxes inside it.
PlainRun RunOf(DType dtype, const Shape& shape,
               std::span<const Extent> extents);
// Only those that can be used where they lie: aligned, and not of bools.
PlainRun PlainRunOf(DType dtype, const Shape& shape,
                    std::span<const Extent> extents);

}  // namespace holdfast
