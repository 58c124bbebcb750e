// Elements of less than a byte, packed in a file, as an ArrayReader of one byte
// an element.
//
// Thread-safety: as ArrayReader. Ownership: shares the store.
#pragma once

#include <memory>
#include <string>

#include "holdfast/tree.h"
#include "stores/storage/store.h"

namespace holdfast {

// An array of 4-bit elements in C order at `offset` of `file`; the first of two
// is in the low bits of their byte.
std::shared_ptr<const ArrayReader> MakeNibbleReader(
    std::shared_ptr<Store> store, std::string file, uint64_t offset,
    Shape shape);

}  // namespace holdfast
