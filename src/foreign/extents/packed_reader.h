// An ArrayReader for elements of less than a byte that are packed in a file. It
// returns one byte per element.
//
// Thread-safety: as ArrayReader. Ownership: shares the store.
#pragma once

#include <memory>
#include <string>

#include "holdfast/tree.h"
#include "stores/storage/store.h"

namespace holdfast {

// Reads an array of 4-bit elements in C order at `offset` of `file`. The first
// of two elements is in the low bits of their byte.
std::shared_ptr<const ArrayReader> MakeNibbleReader(
    std::shared_ptr<Store> store, std::string file, uint64_t offset,
    Shape shape);

}  // namespace holdfast
