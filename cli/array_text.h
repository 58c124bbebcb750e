// Arrays as text, laid out as numpy prints them: brackets a dimension, aligned
// columns, lines of at most 75 columns, "..." where elements are left out.
//
// Unlike numpy, digits are never rounded: each element prints the shortest
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

// Elements kept at each end of a summarised axis, and when to summarise.
inline constexpr int64_t kEdgeCount = 3;
inline constexpr int64_t kSummaryThreshold = 1000;

// Prints `view` and a newline. Axes that are longer in `whole_shape` than in
// the view hold only the edges (kEdgeCount at each end): "..." goes between.
// REQUIRES: same rank.
void PrintArray(const ConstArrayView& view, const Shape& whole_shape,
                std::ostream& out);

// Nested lists; a bare value for rank 0.
void WriteArrayJson(const ConstArrayView& view, JsonWriter* json);

// Elements in C order, little endian, as they lie in memory.
void WriteArrayBytes(const ConstArrayView& view, std::ostream& out);

// Calls `visit` with each element in C order.
void ForEachElement(const ConstArrayView& view,
                    const std::function<void(const char*)>& visit);

}  // namespace holdfast::cli
