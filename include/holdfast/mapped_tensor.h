// MapTensors: arrays used where they lie in their files, without reading them.
//
//   auto checkpoint = holdfast::Open("/models/llama");
//   const std::vector<size_t> leaves = {0, 1};
//   auto tensors = holdfast::MapTensors(**checkpoint, leaves);
//   for (const auto& tensor : *tensors)
//     if (!tensor.why_not.empty()) std::cerr << tensor.why_not << "\n";
//
// That can be where the elements of an array lie in one file of the file system
// as they are in memory: one after the other in C order, little endian, at a
// multiple of their size, neither compressed nor bools (whose bytes are checked
// when they are read) nor narrower than a byte. Several chunks that lie one
// behind the other count as one. An array without elements needs no file, and
// counts as mapped.
//
// A page is read from the disk when somebody first touches it. So the file must
// stay as it is while an array of it is in use: who cuts it short makes the
// next touch of what is gone end the process (SIGBUS), and who writes to it
// changes the array. That every array lies inside its file is checked here.
// Replacing a file by renaming another over it is fine, and what holdfast does.
//
// Checksums are not looked at unless `verify` asks for it.
// Thread-safety: any thread. Ownership: an Array shares its mapping, which
// needs neither the checkpoint nor the file's name; arrays of one file and call
// share one mapping, from the first of them to the last. Units: bytes.
// Errors: OutOfRange for a number that names no leaf; a leaf's own problem;
// DataLoss (an array that is not inside its file; with `verify` all that Read
// finds), ResourceExhausted (no room for a mapping).
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
  // Why it is not mapped ("compressed with zstd"), and `array` has no elements;
  // empty: it is.
  std::string why_not;
  Array array;
  std::string file;     // "" without elements
  uint64_t offset = 0;  // of the first element in the file
};

// One for each of `leaves`, numbers of checkpoint.leaves(). `run` is that of
// verifying.
Result<std::vector<MappedTensor>> MapTensors(const Checkpoint& checkpoint,
                                             std::span<const size_t> leaves,
                                             const MapOptions& options = {},
                                             const RunOptions& run = {});

}  // namespace holdfast
