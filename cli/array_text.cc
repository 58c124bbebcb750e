#include "cli/array_text.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>
#include <vector>

#include "cli/element_text.h"

namespace holdfast::cli {
namespace {

constexpr size_t kArrayLineWidth = 75;

// Decides whether all floats of an array are printed in scientific notation.
// numpy's rule: yes if any is at least 1e8 or below 1e-4, or if the ratio of
// the largest to the smallest is above 1000.
struct FloatRange {
  double smallest = INFINITY;  // among the finite non-zero magnitudes
  double largest = 0;

  void Add(double value) {
    const double size = std::fabs(value);
    if (!std::isfinite(size) || size == 0) return;
    smallest = std::min(smallest, size);
    largest = std::max(largest, size);
  }
  bool scientific() const {
    if (largest == 0) return false;
    return largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000;
  }
};

// Formats the elements of one array to equal widths.
class ElementFormatter {
 public:
  explicit ElementFormatter(const ConstArrayView& view)
      : dtype_(view.dtype), kind_(DTypeKindOf(view.dtype)) {
    ForEachElement(view, [&](const char* element) { AddRange(element); });
    real_scientific_ = real_.scientific();
    imag_scientific_ = imag_.scientific();
    ForEachElement(view, [&](const char* element) { AddWidth(element); });
  }

  std::string Format(const char* element) const {
    const std::string text = Text(element);
    if (!AlignsPoints()) return PadLeft(text, width_);
    return PadLeft(text + std::string(right_ - RightWidth(text), ' '), width_);
  }

 private:
  // Returns true if columns are aligned at the point: only plain decimals are,
  // without an exponent or an imaginary part.
  bool AlignsPoints() const {
    return kind_ == DTypeKind::kFloat && !real_scientific_;
  }
  static std::string PadLeft(const std::string& text, size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
  }
  // Returns the number of characters after the point. "nan" and "inf" end with
  // the column.
  size_t RightWidth(const std::string& text) const {
    const size_t point = text.find('.');
    return point == std::string::npos ? right_ : text.size() - point - 1;
  }

  void AddRange(const char* element) {
    if (kind_ == DTypeKind::kFloat) real_.Add(FloatValue(dtype_, element));
    if (kind_ != DTypeKind::kComplex) return;
    const ComplexValue value = ComplexElement(dtype_, element);
    real_.Add(value.real);
    imag_.Add(value.imag);
  }

  void AddWidth(const char* element) {
    const std::string text = Text(element);
    const size_t point = AlignsPoints() ? text.find('.') : std::string::npos;
    if (point == std::string::npos) {
      whole_ = std::max(whole_, text.size());
    } else {
      left_ = std::max(left_, point + 1);
      right_ = std::max(right_, text.size() - point - 1);
    }
    width_ = std::max(whole_, left_ + right_);
  }

  std::string Text(const char* element) const {
    if (kind_ == DTypeKind::kFloat) {
      return FloatDigits(dtype_, FloatValue(dtype_, element), real_scientific_);
    }
    if (kind_ != DTypeKind::kComplex) return ElementText(dtype_, element);
    const ComplexValue value = ComplexElement(dtype_, element);
    const std::string imag = FloatDigits(dtype_, value.imag, imag_scientific_);
    return FloatDigits(dtype_, value.real, real_scientific_) +
           (imag[0] == '-' ? "" : "+") + imag + "j";
  }

  DType dtype_;
  DTypeKind kind_;
  FloatRange real_;
  FloatRange imag_;
  bool real_scientific_ = false;
  bool imag_scientific_ = false;
  size_t whole_ = 0;  // width of texts without a point
  size_t left_ = 0;   // width up to and including the point
  size_t right_ = 0;  // width after the point
  size_t width_ = 0;
};

// Prints in the layout of numpy's _formatArray, without building the whole text
// in memory.
class Printer {
 public:
  Printer(const ConstArrayView& view, const Shape& whole_shape,
          std::ostream& out)
      : view_(view), whole_shape_(whole_shape), out_(out), formatter_(view) {}

  void PrintAxis(size_t axis, const char* data) {
    out_ << '[';
    if (axis + 1 == view_.shape.size()) {
      PrintRow(axis, data);
    } else {
      PrintNested(axis, data);
    }
    out_ << ']';
  }

 private:
  bool HasGap(size_t axis) const {
    return whole_shape_[axis] > view_.shape[axis];
  }

  // Prints the innermost axis: words wrapped at the line width, leaving room
  // for the brackets that close here.
  void PrintRow(size_t axis, const char* data) {
    const size_t indent = axis + 1;
    const size_t line_end = kArrayLineWidth - view_.shape.size();
    std::string line(indent, ' ');
    // The columns that are already printed on this line: the opening brackets.
    size_t written = indent;
    const auto put = [&](const std::string& word) {
      if (line.size() > indent && line.size() + 1 + word.size() > line_end) {
        line.resize(line.find_last_not_of(' ') + 1);
        out_ << std::string_view(line).substr(written) << '\n';
        line.assign(indent, ' ');
        written = 0;
      } else if (line.size() > indent) {
        line += ' ';
      }
      line += word;
    };
    for (int64_t i = 0; i < view_.shape[axis]; ++i) {
      if (i == kEdgeCount && HasGap(axis)) put("...");
      put(formatter_.Format(data + i * view_.strides[axis]));
    }
    out_ << std::string_view(line).substr(written);
  }

  void PrintNested(size_t axis, const char* data) {
    const std::string separator(view_.shape.size() - axis - 1, '\n');
    const std::string indent(axis + 1, ' ');
    for (int64_t i = 0; i < view_.shape[axis]; ++i) {
      if (i > 0) out_ << separator << indent;
      if (i == kEdgeCount && HasGap(axis)) {
        out_ << "..." << separator << indent;
      }
      PrintAxis(axis + 1, data + i * view_.strides[axis]);
    }
  }

  const ConstArrayView& view_;
  const Shape& whole_shape_;
  std::ostream& out_;
  ElementFormatter formatter_;
};

template <typename Visit>
void VisitAxis(const ConstArrayView& view, size_t axis, const char* data,
               const Visit& visit) {
  if (axis == view.shape.size()) {
    visit(data);
    return;
  }
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    VisitAxis(view, axis + 1, data + i * view.strides[axis], visit);
  }
}

void WriteAxisJson(const ConstArrayView& view, size_t axis, const char* data,
                   JsonWriter* json) {
  if (axis == view.shape.size()) {
    WriteElement(view.dtype, data, json);
    return;
  }
  json->BeginArray();
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    WriteAxisJson(view, axis + 1, data + i * view.strides[axis], json);
  }
  json->EndArray();
}

}  // namespace

void ForEachElement(const ConstArrayView& view,
                    const std::function<void(const char*)>& visit) {
  VisitAxis(view, 0, view.data, visit);
}

void PrintArray(const ConstArrayView& view, const Shape& whole_shape,
                std::ostream& out) {
  assert(view.shape.size() == whole_shape.size());
  if (view.shape.empty()) {
    out << ElementText(view.dtype, view.data) << '\n';
    return;
  }
  // Like numpy, prints "[]" for any array without elements.
  if (ElementCount(view.shape) == 0) {
    out << "[]\n";
    return;
  }
  Printer(view, whole_shape, out).PrintAxis(0, view.data);
  out << '\n';
}

void WriteArrayJson(const ConstArrayView& view, JsonWriter* json) {
  WriteAxisJson(view, 0, view.data, json);
}

void WriteArrayBytes(const ConstArrayView& view, std::ostream& out) {
  const size_t element_bytes = DTypeBytes(view.dtype);
  if (IsContiguous(view)) {
    const auto count = static_cast<size_t>(ElementCount(view.shape));
    out.write(view.data, static_cast<std::streamsize>(count * element_bytes));
    return;
  }
  VisitAxis(view, 0, view.data, [&](const char* element) {
    out.write(element, static_cast<std::streamsize>(element_bytes));
  });
}

}  // namespace holdfast::cli
