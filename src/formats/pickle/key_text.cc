#include "formats/pickle/key_text.h"

#include <cmath>

#include "formats/pickle/decimal.h"

namespace holdfast::pickle {
namespace {

// Writes an integral float like an int. In Python, 1, 1.0 and True are equal
// keys.
std::string NumberText(double value) {
  if (std::trunc(value) == value && std::fabs(value) < 9e18) {
    return "#" + std::to_string(static_cast<int64_t>(value));
  }
  return "#" + PythonFloat(value);
}

}  // namespace

std::optional<std::string> KeyText(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::kBool:
      return value.bool_value() ? "#1" : "#0";
    case PickleKind::kInt:
      return "#" + DecimalOfBytes(value.int_bytes());
    case PickleKind::kFloat:
      return NumberText(value.float_value());
    case PickleKind::kString:
      return "s" + value.text();
    case PickleKind::kTuple: {
      std::string text = "(";
      for (const PickleValue& item : value.items()) {
        const auto part = KeyText(item);
        if (!part) return std::nullopt;
        text += std::to_string(part->size()) + ":" + *part;
      }
      return text;
    }
    case PickleKind::kList:
    case PickleKind::kDict:
    case PickleKind::kOrderedDict:
    case PickleKind::kSet:
    case PickleKind::kByteArray:
      return std::nullopt;
    default:
      return "{" + PickleValueToJson(value);
  }
}

}  // namespace holdfast::pickle
