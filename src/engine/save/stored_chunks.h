// StoredChunks: an array whose chunks a save does not write, since they lie in
// files already: only references to them go into the database.
//
// Thread-safety: a value. Units: bytes; chunks by number in their grid.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/format/digest_file.h"
#include "formats/zarr/format/metadata.h"

namespace holdfast {

// A save takes an array with such a reader (ArrayReader::stored) as it lies.
struct StoredChunks {
  // A chunk in sources[file]: all bytes of a whole chunk, also at an edge.
  struct Range {
    uint32_t file = 0;
    uint64_t offset = 0;
    uint64_t byte_count = 0;
  };

  // How every chunk lies: regular, one object each, not compressed.
  zarr::ArrayMetadata metadata;
  // Shared by all arrays of an item. Paths from the item's directory on, where
  // the files, or links to them, are when the save writes the item. Those that
  // come from nowhere are the checkpoint's own.
  std::shared_ptr<const std::vector<SourceFile>> sources;
  std::vector<Range> ranges;  // of all chunks of the grid, in C order
  // Checksums of the ranges, where they are known; empty, or one a range, of
  // which path and offset do not count.
  std::vector<ValueDigest> digests;
};

}  // namespace holdfast
