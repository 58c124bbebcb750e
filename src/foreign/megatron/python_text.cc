#include "foreign/megatron/python_text.h"

#include <algorithm>

#include "ground/tree/python_repr.h"

namespace holdfast::megatron {
namespace {

// torch abbreviates larger tensors.
constexpr int64_t kTensorTextElementsMax = 1000;

std::string Padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text
                             : text;
}

// Formats the elements of an axis and the axes in it, indented as torch does.
std::string AxisText(const Shape& shape, size_t axis, int64_t first,
                     int64_t step, size_t indent, size_t width,
                     const std::function<int64_t(int64_t)>& count_of) {
  std::string text = "[";
  const int64_t inner = shape[axis] == 0 ? 0 : step / shape[axis];
  const bool is_last = axis + 1 == shape.size();
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (is_last) {
      text += (i == 0 ? "" : ", ") +
              Padded(std::to_string(count_of(first + i)), width);
      continue;
    }
    if (i > 0) {
      text += "," + std::string(shape.size() - axis - 1, '\n') +
              std::string(indent + 1, ' ');
    }
    text += AxisText(shape, axis + 1, first + i * inner, inner, indent + 1,
                     width, count_of);
  }
  return text + "]";
}

}  // namespace

std::string PythonRepr(std::string_view text) {
  std::string repr;
  AppendPythonRepr(repr, text);
  return repr;
}

std::string TorchName(DType dtype) {
  return "torch." + std::string(DTypeName(dtype));
}

std::string TorchSize(const Shape& shape) {
  std::string text = "torch.Size([";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "])";
}

std::string JoinDots(const Shape& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ".") + std::to_string(values[i]);
  }
  return text;
}

std::string NumpyArrayText(const std::vector<int64_t>& values) {
  size_t width = 0;
  for (const int64_t value : values) {
    width = std::max(width, std::to_string(value).size());
  }
  std::string text;
  for (const int64_t value : values) {
    text += (text.empty() ? "" : ", ") + Padded(std::to_string(value), width);
  }
  return "array([" + text + "])";
}

std::string CountTensorText(const Shape& shape, bool is_int32,
                            const std::function<int64_t(int64_t)>& count_of) {
  const std::string end = is_int32 ? ", dtype=torch.int32)" : ")";
  const int64_t element_count = ElementCount(shape);
  if (element_count > kTensorTextElementsMax) return "tensor([...]" + end;
  if (shape.empty()) return "tensor(" + std::to_string(count_of(0)) + end;
  size_t width = 0;
  for (int64_t i = 0; i < element_count; ++i) {
    width = std::max(width, std::to_string(count_of(i)).size());
  }
  return "tensor(" + AxisText(shape, 0, 0, element_count, 7, width, count_of) +
         end;
}

}  // namespace holdfast::megatron
