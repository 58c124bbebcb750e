// Prints arrays as text, laid out as by numpy: nested brackets, aligned
// columns, lines of at most 75 columns, "..." where elements are left out.
//
// Unlike numpy, it never rounds digits: each element is printed as the shortest
// text that reads back as the same value.
// Thread-safety: pure functions.
// Ownership: views are borrowed.
// Units: elements; columns of text.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>

#include "cli/json_out.h"
#include "holdfast/tensor.h"

namespace holdfast::cli {

// The number of elements kept at each end of a summarised axis.
inline constexpr int64_t kEdgeCount = 3;
inline constexpr int64_t kSummaryThreshold = 1000;

// Prints `view` and a newline. Axes that are longer in `whole_shape` than in
// the view have only their edges in it (kEdgeCount at each end), with "..."
// printed between them. REQUIRES: same rank.
void PrintArray(const ConstArrayView& view, const Shape& whole_shape,
                std::ostream& out);

// Writes nested lists; a bare value for rank 0.
void WriteArrayJson(const ConstArrayView& view, JsonWriter* json);

// Writes the elements in C order, little endian, as they are in memory.
void WriteArrayBytes(const ConstArrayView& view, std::ostream& out);

// Calls `visit` with each element in C order.
void ForEachElement(const ConstArrayView& view,
                    const std::function<void(const char*)>& visit);

}  // namespace holdfast::cli
