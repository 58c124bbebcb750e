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

// 'k', with Python's escapes.
std::string PythonRepr(std::string_view text);
// "torch.float32".
std::string TorchName(DType dtype);
// "torch.Size([2, 3])".
std::string TorchSize(const Shape& shape);
// "{'a', 'b'}", "set()".
template <typename Set>
std::string PythonSet(const Set& values) {
  if (values.empty()) return "set()";
  std::string text;
  for (const auto& value : values) {
    text += (text.empty() ? "{" : ", ") + PythonRepr(value);
  }
  return text + "}";
}
// "2.3.4".
std::string JoinDots(const Shape& values);
// "array([ 5, 12])".
std::string NumpyArrayText(const std::vector<int64_t>& values);
// `tensor([[1], [0]], dtype=torch.int32)` with torch's line breaks; a tensor
// that torch would abbreviate becomes "tensor([...], ...)". `count_of` returns
// the element at a C-order index.
std::string CountTensorText(const Shape& shape, bool is_int32,
                            const std::function<int64_t(int64_t)>& count_of);

}  // namespace holdfast::megatron
