// StoredExtents: an additional interface of Checkpoints whose arrays are stored
// in files as they are in memory. It returns where the arrays are.
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

// Where the elements of one leaf are stored.
struct LeafExtents {
  // Why the elements cannot be referred to ("compressed with zstd"); empty if
  // they can.
  std::string why_not;
  // Disjoint boxes that cover the leaf. Extent::file is a path or URL here.
  std::vector<Extent> extents;
};

class StoredExtents {
 public:
  virtual ~StoredExtents() = default;
  // `leaf` must be an array with elements that can be read. Reads at most
  // metadata, and returns the errors of that.
  virtual Result<LeafExtents> ExtentsOf(size_t leaf) const = 0;
  // Returns the checkpoint's own checksums for a range of one of its files;
  // null if it has none for exactly these bytes, or was opened without
  // checksums. Borrowed from the checkpoint.
  virtual const ValueDigest* DigestOf(const std::string& /*file*/,
                                      uint64_t /*offset*/,
                                      uint64_t /*byte_count*/) const {
    return nullptr;
  }
};

// Returns the extents of a leaf of any checkpoint. Sets `why_not` if the
// checkpoint is not a StoredExtents.
Result<LeafExtents> ExtentsOf(const Checkpoint& checkpoint, size_t leaf);
const ValueDigest* DigestOf(const Checkpoint& checkpoint,
                            const std::string& file, uint64_t offset,
                            uint64_t byte_count);

// Returns the extents of a zarr array, one per chunk.
Result<LeafExtents> ExtentsOfChunks(const ArrayHome& home,
                                    const ReadableArray& array);

// The location of all elements of a leaf, if they are contiguous in one file,
// as they are in memory.
struct PlainRun {
  std::string why_not;  // empty if they are
  std::string file;
  uint64_t offset = 0;
};
// Returns where all elements of an array are. REQUIRES: the array has elements,
// and `extents` are disjoint boxes inside it.
PlainRun RunOf(DType dtype, const Shape& shape,
               std::span<const Extent> extents);
// Like RunOf, but only accepts runs that can be used in place: aligned, and not
// of bools.
PlainRun PlainRunOf(DType dtype, const Shape& shape,
                    std::span<const Extent> extents);

}  // namespace holdfast
