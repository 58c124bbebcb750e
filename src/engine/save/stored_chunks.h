// StoredChunks: an array whose chunks a save does not write because they are in
// files already: only references to them go into the database.
//
// Thread-safety: a value. Units: bytes; chunks by index in their grid.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/format/digest_file.h"
#include "formats/zarr/format/metadata.h"

namespace holdfast {

// If an array's reader returns this (ArrayReader::stored), a save refers to the
// array in place.
struct StoredChunks {
  // A chunk in sources[file]: all bytes of a full chunk, even at an edge.
  struct Range {
    uint32_t file = 0;
    uint64_t offset = 0;
    uint64_t byte_count = 0;
  };

  // How every chunk is stored: regular, one object each, not compressed.
  zarr::ArrayMetadata metadata;
  // Shared by all arrays of an item. Paths are relative to the item's
  // directory, where the files, or links to them, exist when the save writes
  // the item. Files without a recorded origin are the checkpoint's own.
  std::shared_ptr<const std::vector<SourceFile>> sources;
  std::vector<Range> ranges;  // of all chunks of the grid, in C order
  // Checksums of the ranges, if they are known; either empty or one per range.
  // Their path and offset are ignored.
  std::vector<ValueDigest> digests;
};

}  // namespace holdfast
