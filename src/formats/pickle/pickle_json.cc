#include <algorithm>
#include <cmath>

#include "formats/pickle/decimal.h"
#include "formats/pickle/elements.h"
#include "formats/pickle/pickle_reader.h"
#include "ground/base/coding.h"
#include "ground/base/sha256.h"
#include "ground/base/text.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {
namespace {

// Returns the SHA-256 of the elements in C order, little endian, in hex.
std::string Sha256OfElements(const ConstArrayView& view) {
  Sha256 hash;
  pickle::ForEachPiece(view,
                       [&](std::string_view piece) { hash.Update(piece); });
  return hash.HexDigest();
}

// The JSON shows the bytes of tensors with at most this many elements.
constexpr int64_t kShownElementsMax = 16;

// REQUIRES: `unit` is a code unit of UTF-16.
void AppendUnicodeEscape(std::string& out, uint32_t unit) {
  out += "\\u" + HexNumber(unit, 4);
}

void AppendChar(std::string& out, uint32_t c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (c >= 0x20 && c < 0x7f) {
    out += static_cast<char>(c);
  } else if (c < 0x10000) {
    AppendUnicodeEscape(out, c);
  } else {
    AppendUnicodeEscape(out, 0xd800 + ((c - 0x10000) >> 10));
    AppendUnicodeEscape(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
  }
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    AppendChar(out, pickle::NextPythonChar(text, i));
  }
  return out += '"';
}

std::string Tagged(std::string_view tag, const std::string& json) {
  return "{\"$" + std::string(tag) + "\":" + json + "}";
}

std::string FloatJson(double value) {
  const std::string text = pickle::PythonFloat(value);
  return std::isfinite(value) ? text : Tagged("float", Quoted(text));
}

std::vector<std::string> JsonOf(const std::vector<PickleValue>& values) {
  std::vector<std::string> parts;
  parts.reserve(values.size());
  for (const PickleValue& value : values) {
    parts.push_back(PickleValueToJson(value));
  }
  return parts;
}

std::string ListJson(const std::vector<PickleValue>& values) {
  return "[" + Joined(JsonOf(values), ",") + "]";
}

std::string SetJson(const std::vector<PickleValue>& values) {
  std::vector<std::string> parts = JsonOf(values);
  std::ranges::sort(parts);
  return "[" + Joined(parts, ",") + "]";
}

using Pairs = std::vector<PickleValue::Pair>;

// Keeps the order of the pairs.
std::string PairsJson(const Pairs& pairs) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : pairs) {
    parts.push_back("[" + PickleValueToJson(key) + "," +
                    PickleValueToJson(value) + "]");
  }
  return "[" + Joined(parts, ",") + "]";
}

bool IsPlainKey(const PickleValue& key) {
  return key.is(PickleKind::kString) && !key.text().starts_with('$');
}

// Sorts by code point, which is also the byte order of UTF-8.
std::string ObjectJson(const Pairs& pairs) {
  std::vector<const PickleValue::Pair*> sorted;
  for (const auto& pair : pairs) sorted.push_back(&pair);
  std::ranges::sort(sorted, [](const auto* a, const auto* b) {
    return a->first.text() < b->first.text();
  });
  std::vector<std::string> parts;
  for (const auto* pair : sorted) {
    parts.push_back(Quoted(pair->first.text()) + ":" +
                    PickleValueToJson(pair->second));
  }
  return "{" + Joined(parts, ",") + "}";
}

std::string DictJson(const Pairs& pairs) {
  const bool is_plain = std::ranges::all_of(
      pairs, [](const auto& pair) { return IsPlainKey(pair.first); });
  return is_plain ? ObjectJson(pairs) : Tagged("dict", PairsJson(pairs));
}

std::string NamespaceJson(const Pairs& pairs) {
  const bool has_names = std::ranges::all_of(pairs, [](const auto& pair) {
    return pair.first.is(PickleKind::kString);
  });
  return Tagged("namespace", has_names ? ObjectJson(pairs) : PairsJson(pairs));
}

std::string ShapeJson(const Shape& shape) {
  std::vector<std::string> parts;
  for (const int64_t extent : shape) parts.push_back(std::to_string(extent));
  return "[" + Joined(parts, ",") + "]";
}

std::string HexJson(std::string_view bytes) {
  return "\"" + ToHex(bytes) + "\"";
}

std::string TensorJson(const PickleValue& value) {
  const Array& array = value.array();
  std::string json =
      "{\"dtype\":\"" + std::string(DTypeName(array.dtype())) + "\"";
  if (array.element_count() <= kShownElementsMax) {
    json += ",\"hex\":" + HexJson(pickle::ElementBytes(array.view()));
  }
  json += ",\"sha256\":\"" + Sha256OfElements(array.view()) +
          "\",\"shape\":" + ShapeJson(value.shape()) + "}";
  return Tagged("tensor", json);
}

std::string NumpyJson(const PickleValue& value) {
  const std::string dtype = "{\"dtype\":" + Quoted(value.numpy_dtype());
  if (value.is(PickleKind::kNumpyScalar)) {
    return Tagged(
        "numpy", dtype + ",\"hex\":" +
                     HexJson(pickle::ElementBytes(value.array().view())) + "}");
  }
  return Tagged("ndarray", dtype + ",\"sha256\":\"" +
                               Sha256OfElements(value.array().view()) +
                               "\",\"shape\":" + ShapeJson(value.shape()) +
                               "}");
}

std::string EnumJson(const PickleRecord& record) {
  const std::string member =
      record.args.empty() ? "null" : PickleValueToJson(record.args.back());
  return Tagged("enum", "{\"class\":" + Quoted(record.FullName()) +
                            (record.by_name ? ",\"name\":" : ",\"value\":") +
                            member + "}");
}

std::string RecordJson(const PickleRecord& record) {
  std::string json = "{";
  if (!record.args.empty()) json += "\"args\":" + ListJson(record.args) + ",";
  json += "\"class\":" + Quoted(record.FullName());
  if (!record.items.empty()) json += ",\"items\":" + ListJson(record.items);
  if (!record.pairs.empty()) {
    json += ",\"pairs\":" + PairsJson(record.pairs);
  }
  if (record.state) json += ",\"state\":" + PickleValueToJson(*record.state);
  return Tagged("record", json + "}");
}

}  // namespace

std::string PickleValueToJson(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::kNone:
      return "null";
    case PickleKind::kBool:
      return value.bool_value() ? "true" : "false";
    case PickleKind::kInt:
      return pickle::DecimalOfBytes(value.int_bytes());
    case PickleKind::kFloat:
      return FloatJson(value.float_value());
    case PickleKind::kComplex:
      return Tagged("complex", "[" + FloatJson(value.float_value()) + "," +
                                   FloatJson(value.imaginary()) + "]");
    case PickleKind::kString:
      return Quoted(value.text());
    case PickleKind::kBytes:
      return Tagged("bytes", HexJson(value.text()));
    case PickleKind::kByteArray:
      return Tagged("bytearray", HexJson(value.text()));
    case PickleKind::kBytesIO:
      return Tagged("bytesio", HexJson(value.text()));
    case PickleKind::kList:
      return ListJson(value.items());
    case PickleKind::kTuple:
      return Tagged("tuple", ListJson(value.items()));
    case PickleKind::kSet:
      return Tagged("set", SetJson(value.items()));
    case PickleKind::kFrozenSet:
      return Tagged("frozenset", SetJson(value.items()));
    case PickleKind::kDict:
      return DictJson(value.pairs());
    case PickleKind::kOrderedDict:
      return Tagged("odict", PairsJson(value.pairs()));
    case PickleKind::kNamespace:
      return NamespaceJson(value.pairs());
    case PickleKind::kTensor:
      return TensorJson(value);
    case PickleKind::kNdarray:
    case PickleKind::kNumpyScalar:
      return NumpyJson(value);
    case PickleKind::kTorchDType:
      return Tagged("torch.dtype", Quoted(value.text()));
    case PickleKind::kTorchDevice:
      return Tagged("torch.device", Quoted(value.text()));
    case PickleKind::kTorchSize:
      return Tagged("torch.size", ListJson(value.items()));
    case PickleKind::kEnum:
      return EnumJson(value.record());
    case PickleKind::kRecord:
      return RecordJson(value.record());
    case PickleKind::kGlobal:
      return Tagged("global", Quoted(value.record().FullName()));
  }
  return "null";
}

}  // namespace holdfast
