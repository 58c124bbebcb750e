// WantedBox: a part of a leaf that a rank wants, and the encoding in which
// ranks exchange lists of them.
//
// Thread-safety: values and pure functions. Units: elements.
// Errors: DataLoss for bytes that are not a list; every number is left for the
// caller to check.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/dtype.h"

namespace holdfast {

struct WantedBox {
  size_t leaf = 0;
  Box box;
  DType dtype = DType::kUint8;  // of the memory it goes to

  bool operator==(const WantedBox&) const = default;
};
// Orders by leaf first.
bool operator<(const WantedBox& a, const WantedBox& b);

// Returns the bytes of memory that the box needs; the largest number on
// overflow.
uint64_t MemoryBytesOf(const WantedBox& wanted);

std::string EncodeWanted(const std::vector<WantedBox>& wanted);
Result<std::vector<WantedBox>> DecodeWanted(std::string_view bytes);

}  // namespace holdfast
