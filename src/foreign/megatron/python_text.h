// Formats values as Python and torch print them, for messages.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/tensor.h"

namespace holdfast::megatron {

// Returns the text in quotes, with Python's escapes: 'k'.
std::string PythonRepr(std::string_view text);
// Returns a name such as "torch.float32".
std::string TorchName(DType dtype);
// Returns a text such as "torch.Size([2, 3])".
std::string TorchSize(const Shape& shape);
// Returns a text such as "{'a', 'b'}", or "set()".
template <typename Set>
std::string PythonSet(const Set& values) {
  if (values.empty()) return "set()";
  std::string text;
  for (const auto& value : values) {
    text += (text.empty() ? "{" : ", ") + PythonRepr(value);
  }
  return text + "}";
}
// Returns a text such as "2.3.4".
std::string JoinDots(const Shape& values);
// Returns a text such as "array([ 5, 12])".
std::string NumpyArrayText(const std::vector<int64_t>& values);
// Returns a text such as `tensor([[1], [0]], dtype=torch.int32)`, with torch's
// line breaks. A tensor that torch would abbreviate becomes "tensor([...],
// ...)". `count_of` returns the element at an index in C order.
std::string CountTensorText(const Shape& shape, bool is_int32,
                            const std::function<int64_t(int64_t)>& count_of);

}  // namespace holdfast::megatron
