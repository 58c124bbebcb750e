// Prints arrays as text in numpy's layout: nested brackets, aligned columns,
// lines of at most 75 columns, "..." where elements are left out.
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

// The number of elements kept at each end of a summarized axis.
inline constexpr int64_t kEdgeCount = 3;
inline constexpr int64_t kSummaryThreshold = 1000;

// Prints `view` and a newline. An axis that is longer in `whole_shape` than in
// the view is summarized: the view has only its edges (kEdgeCount at each end),
// and "..." is printed between them. REQUIRES: both have the same rank.
void PrintArray(const ConstArrayView& view, const Shape& whole_shape,
                std::ostream& out);

// Writes nested lists, or a bare value for rank 0.
void WriteArrayJson(const ConstArrayView& view, JsonWriter* json);

// Writes the elements in C order, little endian, as they are in memory.
void WriteArrayBytes(const ConstArrayView& view, std::ostream& out);

// Calls `visit` with each element in C order.
void ForEachElement(const ConstArrayView& view,
                    const std::function<void(const char*)>& visit);

}  // namespace holdfast::cli
