// MapTensors: uses arrays directly in their files, without reading them.
//
//   auto checkpoint = holdfast::Open("/models/llama");
//   const std::vector<size_t> leaves = {0, 1};
//   auto tensors = holdfast::MapTensors(**checkpoint, leaves);
//   for (const auto& tensor : *tensors)
//     if (!tensor.why_not.empty()) std::cerr << tensor.why_not << "\n";
//
// An array can be mapped if one local file holds its elements exactly as they
// are in memory: contiguous in C order, little endian, at a multiple of their
// size, not compressed, not narrower than a byte, and not bools (whose bytes
// must be checked). Several chunks may be stored back to back. An array without
// elements needs no file, and counts as mapped.
//
// A page is read from disk when it is first touched, so the file must not
// change while an array in it is in use. If the file is truncated, touching a
// removed page ends the process (SIGBUS); if the file is written to, the array
// changes. Replacing a file by renaming another over it, as holdfast does, is
// safe. MapTensors checks that every array is inside its file.
//
// Checksums are checked only with `verify`.
// Thread-safety: any thread.
// Ownership: an Array shares its mapping, which needs neither the checkpoint
// nor the file's name. The arrays that one call returns from the same file
// share one mapping, which extends from the first array to the last. Units:
// bytes.
// Errors: OutOfRange for an index outside leaves(); a leaf's own problem;
// DataLoss (an array that is not inside its file; with `verify`, everything
// that Read reports), ResourceExhausted (no room for a mapping).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

struct MappedTensor {
  // Why the tensor is not mapped ("compressed with zstd"); `array` then has no
  // elements. Empty if it is mapped.
  std::string why_not;
  Array array;
  std::string file;     // "" without elements
  uint64_t offset = 0;  // of the first element in the file
};

// Returns one MappedTensor for each of `leaves`, which are indices into
// checkpoint.leaves(). `run` applies to MapOptions::verify.
Result<std::vector<MappedTensor>> MapTensors(const Checkpoint& checkpoint,
                                             std::span<const size_t> leaves,
                                             const MapOptions& options = {},
                                             const RunOptions& run = {});

}  // namespace holdfast
