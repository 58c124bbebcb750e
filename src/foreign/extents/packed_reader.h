// An ArrayReader for elements that are smaller than a byte and packed in a
// file. It returns one byte per element.
//
// Thread-safety: as ArrayReader. Ownership: shares the store.
#pragma once

#include <memory>
#include <string>

#include "holdfast/tree.h"
#include "stores/storage/store.h"

namespace holdfast {

// Returns a reader of an array of 4-bit elements in C order at `offset` of
// `file`. The low bits of a byte are the first of its two elements.
std::shared_ptr<const ArrayReader> MakeNibbleReader(
    std::shared_ptr<Store> store, std::string file, uint64_t offset,
    Shape shape);

}  // namespace holdfast
