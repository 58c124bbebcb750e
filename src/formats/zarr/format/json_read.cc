#include "formats/zarr/format/json_read.h"

#include <cmath>
#include <limits>

#include "ground/base/status_macros.h"

namespace holdfast::zarr {
namespace {

// Values quoted in messages are shortened, since they come from a file.
constexpr size_t kQuotedBytesMax = 300;

std::string Quote(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kQuotedBytesMax) return text;
  text.resize(kQuotedBytesMax);
  return text + "...";
}

// Counts brackets outside strings to bound the depth before parsing, since the
// parser is recursive.
bool DeeperThan(std::string_view text, int depth_max) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > depth_max) return true;
  }
  return false;
}

std::optional<int64_t> AsInt64(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > uint64_t{std::numeric_limits<int64_t>::max()}) return {};
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return {};
  const double number = value.get<double>();
  if (number != std::trunc(number) || number < -0x1p63 || number >= 0x1p63) {
    return {};
  }
  return static_cast<int64_t>(number);
}

Status Expected(std::string what, const Json* value) {
  return FailedPreconditionError("Expected " + what + ", " + Received(value));
}

std::string Range(const std::string& low, const std::string& high) {
  return "integer in the range [" + low + ", " + high + "]";
}

// Returns TensorStore's error, which for a missing number names nlohmann's
// discarded value.
Status ExpectedInteger(std::string range, const Json* value) {
  if (value != nullptr) return Expected(std::move(range), value);
  return FailedPreconditionError("Expected " + range +
                                 ", but received: <discarded>");
}

}  // namespace

Result<Json> ParseJson(std::string_view text, StatusCode code) {
  // The parser would treat a NUL byte as the end of the text.
  if (text.find('\0') != std::string_view::npos) {
    return Status(code, "Invalid JSON: NUL byte");
  }
  if (DeeperThan(text, kJsonDepthMax)) {
    return Status(code, "Invalid JSON: nested deeper than " +
                            std::to_string(kJsonDepthMax));
  }
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return Status(code, "Invalid JSON");
  return value;
}

Result<std::string> DumpJson(const Json& value) {
  try {
    return value.dump();
  } catch (const Json::exception&) {
    return InvalidArgumentError("metadata holds a string that is not UTF-8");
  }
}

const Json* Find(const Json& object, std::string_view name) {
  const auto it = object.find(std::string(name));
  return it == object.end() ? nullptr : &*it;
}

std::string Received(const Json* value) {
  if (value == nullptr) return "but member is missing";
  return "but received: " + Quote(*value);
}

Result<int64_t> ReadInt(const Json* value, int64_t low, int64_t high) {
  if (value != nullptr) {
    const std::optional<int64_t> number = AsInt64(*value);
    if (number && *number >= low && *number <= high) return *number;
  }
  return ExpectedInteger(Range(std::to_string(low), std::to_string(high)),
                         value);
}

Result<uint64_t> ReadUint64(const Json* value) {
  if (value != nullptr) {
    if (value->is_number_unsigned()) return value->get<uint64_t>();
    if (value->is_number_float()) {
      const double number = value->get<double>();
      if (number == std::trunc(number) && number >= 0 && number < 0x1p64) {
        return static_cast<uint64_t>(number);
      }
    }
  }
  return ExpectedInteger(Range("0", "18446744073709551615"), value);
}

Result<bool> ReadBool(const Json* value) {
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  return Expected("boolean", value);
}

Result<std::string> ReadString(const Json* value) {
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  return Expected("string", value);
}

Result<std::string> ReadOneOf(const Json* value,
                              std::initializer_list<std::string_view> choices) {
  std::string names;
  for (std::string_view choice : choices) {
    if (value != nullptr && value->is_string() &&
        value->get_ref<const std::string&>() == choice) {
      return std::string(choice);
    }
    if (!names.empty()) names += ", ";
    names.append(1, '"').append(choice).append(1, '"');
  }
  return Expected((choices.size() > 1 ? "one of " : "") + names, value);
}

Result<const Json*> ReadObject(const Json* value) {
  if (value != nullptr && value->is_object()) return value;
  return Expected("object", value);
}

Result<const Json*> ReadArray(const Json* value, std::optional<size_t> rank) {
  if (value == nullptr || !value->is_array()) return Expected("array", value);
  if (rank && value->size() != *rank) {
    return FailedPreconditionError(
        "Array has length " + std::to_string(value->size()) +
        " but should have length " + std::to_string(*rank));
  }
  return value;
}

Result<Shape> ReadShape(const Json* value, int64_t low,
                        std::optional<size_t> rank) {
  HF_ASSIGN_OR_RETURN(const Json* list, ReadArray(value));
  if (list->size() > kRankMax) {
    return FailedPreconditionError("Rank " + std::to_string(list->size()) +
                                   " is outside valid range [0, 32]");
  }
  HF_ASSIGN_OR_RETURN(list, ReadArray(value, rank));
  Shape shape;
  for (const Json& item : *list) {
    Result<int64_t> extent =
        ReadInt(&item, low, std::numeric_limits<int64_t>::max() - 1);
    if (!extent.ok()) return AtPosition(shape.size(), extent.status());
    shape.push_back(*extent);
  }
  return shape;
}

Status CheckMembers(const Json& object,
                    std::initializer_list<std::string_view> names) {
  std::string extra;
  for (const auto& [name, value] : object.items()) {
    bool known = false;
    for (std::string_view allowed : names) known = known || name == allowed;
    if (known) continue;
    if (!extra.empty()) extra += ",";
    extra += Quote(Json(name));
  }
  if (extra.empty()) return Status();
  return FailedPreconditionError("Object includes extra members: " + extra);
}

Status AtMember(std::string_view name, const Status& status) {
  return status.WithContext("Error parsing object member \"" +
                            std::string(name) + "\"");
}

Status AtPosition(size_t position, const Status& status) {
  return status.WithContext("Error parsing value at position " +
                            std::to_string(position));
}

}  // namespace holdfast::zarr
