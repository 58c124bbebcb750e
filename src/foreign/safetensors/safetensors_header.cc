#include "foreign/safetensors/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

// In the order of the reference's enumeration, by which the reference writer
// sorts.
constexpr std::array<SafetensorsDType, 22> kSafetensorsDTypes = {{
    {"BOOL", 8, DType::kBool},
    {"F4", 4, DType::kFloat4E2m1fn},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"U8", 8, DType::kUint8},
    {"I8", 8, DType::kInt8},
    {"F8_E5M2", 8, DType::kFloat8E5m2},
    {"F8_E4M3", 8, DType::kFloat8E4m3fn},
    {"F8_E8M0", 8, DType::kFloat8E8m0fnu},
    {"F8_E4M3FNUZ", 8, DType::kFloat8E4m3fnuz},
    {"F8_E5M2FNUZ", 8, DType::kFloat8E5m2fnuz},
    {"I16", 16, DType::kInt16},
    {"U16", 16, DType::kUint16},
    {"F16", 16, DType::kFloat16},
    {"BF16", 16, DType::kBfloat16},
    {"I32", 32, DType::kInt32},
    {"U32", 32, DType::kUint32},
    {"F32", 32, DType::kFloat32},
    {"C64", 64, DType::kComplex64},
    {"F64", 64, DType::kFloat64},
    {"I64", 64, DType::kInt64},
    {"U64", 64, DType::kUint64},
}};

// A typical entry takes this many bytes of JSON. Used to reserve memory.
constexpr size_t kEntryTextBytes = 96;

// Receives the header while it is parsed, and keeps only the result.
class HeaderSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string error;

  bool null() override {
    // The reference reader treats null as no metadata.
    if (skip_depth_ == 0 && place_ == Place::kTop && is_metadata_) return true;
    return Value("null");
  }
  bool boolean(bool) override { return Value("a bool"); }
  bool number_integer(int64_t) override { return Value("a negative number"); }
  bool number_float(double, const std::string&) override {
    return Value("not a whole number");
  }
  bool binary(nlohmann::json::binary_t&) override { return Value("binary"); }

  bool number_unsigned(uint64_t value) override {
    if (skip_depth_ > 0 || place_ == Place::kUnknownField) return Value("");
    if (place_ == Place::kShape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Fail("its shape is too large");
      }
      entry().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offset_count_ == 2) return Fail("it has more than two data_offsets");
      (offset_count_ == 0 ? entry().begin : entry().end) = value;
      ++offset_count_;
      return true;
    }
    return Value("a number");
  }

  bool string(std::string& text) override {
    if (skip_depth_ > 0 || place_ == Place::kUnknownField) return Value("");
    if (place_ == Place::kMetadata) {
      header.metadata[metadata_name_] = std::move(text);
      return true;
    }
    if (place_ != Place::kDType) return Value("a string");
    entry().dtype = FindSafetensorsDType(text);
    if (entry().dtype == nullptr) {
      return Fail("its dtype " + text + " is not one of the format");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool start_object(std::size_t) override {
    if (skip_depth_ > 0) return Skip();
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        place_ = is_metadata_ ? Place::kMetadata : Place::kTensor;
        return true;
      case Place::kUnknownField:
        return Skip();
      default:
        return Value("an object");
    }
  }

  bool key(std::string& name) override {
    if (skip_depth_ > 0) return true;
    switch (place_) {
      case Place::kTop:
        return TopKey(name);
      case Place::kMetadata:
        metadata_name_ = name;
        if (!header.metadata.contains(name)) return true;
        return Fail("\"" + name + "\" is there twice");
      default:
        return FieldKey(name);
    }
  }

  bool end_object() override {
    if (skip_depth_ > 0) return EndSkip();
    if (place_ == Place::kTensor && fields_ != kAllFields) {
      return Fail("it lacks its dtype, shape or data_offsets");
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (skip_depth_ > 0 || place_ == Place::kUnknownField) return Skip();
    if (in_array_ || (place_ != Place::kShape && place_ != Place::kOffsets)) {
      return Value("a list");
    }
    in_array_ = true;
    return true;
  }

  bool end_array() override {
    if (skip_depth_ > 0) return EndSkip();
    if (place_ == Place::kOffsets && offset_count_ != 2) {
      return Fail("it does not have two data_offsets");
    }
    in_array_ = false;
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    error = "no JSON at byte " +
            std::to_string(kSafetensorsLengthBytes + position - 1);
    return false;
  }

 private:
  enum class Place : uint8_t {
    kStart,
    kTop,
    kMetadata,
    kTensor,
    kDType,
    kShape,
    kOffsets,
    kUnknownField,
    kEnd,
  };
  static constexpr int kAllFields = 7;

  SafetensorsEntry& entry() { return header.entries.back(); }

  bool Fail(const std::string& why) {
    const bool in_tensor = !is_metadata_ && !header.entries.empty();
    error = (is_metadata_ ? "__metadata__: "
             : in_tensor  ? "tensor \"" + entry().name + "\": "
                          : "") +
            why;
    return false;
  }

  // Handles a value of a wrong kind, or in an unknown field.
  bool Value(const char* what) {
    if (skip_depth_ > 0) return true;
    if (place_ == Place::kUnknownField) {
      place_ = Place::kTensor;
      return true;
    }
    static constexpr const char* kPlaces[] = {
        "the header", "a member of the header", "a value", "it",     "dtype",
        "shape",      "data_offsets",           "",        "the end"};
    return Fail(std::string(kPlaces[static_cast<int>(place_)]) + " is " + what);
  }

  bool Skip() {
    ++skip_depth_;
    return true;
  }
  bool EndSkip() {
    if (--skip_depth_ == 0) place_ = Place::kTensor;
    return true;
  }

  bool TopKey(const std::string& name) {
    is_metadata_ = name == kSafetensorsMetadataKey;
    if (is_metadata_) {
      if (has_metadata_) return Fail("it is there twice");
      has_metadata_ = true;
      return true;
    }
    header.entries.push_back({name, nullptr, {}, 0, 0});
    fields_ = 0;
    offset_count_ = 0;
    return true;
  }

  bool FieldKey(const std::string& name) {
    int field = 0;
    if (name == "dtype") {
      place_ = Place::kDType;
      field = 1;
    } else if (name == "shape") {
      place_ = Place::kShape;
      field = 2;
    } else if (name == "data_offsets") {
      place_ = Place::kOffsets;
      field = 4;
    } else {
      place_ = Place::kUnknownField;
    }
    if ((fields_ & field) != 0) return Fail("its " + name + " is there twice");
    fields_ |= field;
    return true;
  }

  Place place_ = Place::kStart;
  int skip_depth_ = 0;
  int fields_ = 0;
  int offset_count_ = 0;
  bool in_array_ = false;
  bool is_metadata_ = false;
  bool has_metadata_ = false;
  std::string metadata_name_;
};

// Returns the size of the entry's elements; nullopt if their bits are not a
// multiple of 8, or too many.
std::optional<uint64_t> EntryBytes(const SafetensorsEntry& entry) {
  uint64_t bits = entry.dtype->bits;
  bool is_empty = false;
  for (const int64_t extent : entry.shape) {
    is_empty |= extent == 0;
    if (extent != 0 &&
        __builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits)) {
      return std::nullopt;
    }
  }
  if (is_empty) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

Status TensorError(const SafetensorsEntry& entry, const std::string& why) {
  return DataLossError("tensor \"" + entry.name + "\" at offset " +
                       std::to_string(entry.begin) + " of the data: " + why);
}

// Checks that no name occurs twice. Names are sorted by hash, which puts
// duplicates next to each other and costs less than a set of all names.
Status CheckNames(const std::vector<SafetensorsEntry>& entries) {
  using Hashed = std::pair<size_t, std::string_view>;
  std::vector<Hashed> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) {
    names.emplace_back(std::hash<std::string_view>()(entry.name), entry.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return Status();
  return DataLossError("the header: tensor \"" + std::string(twice->second) +
                       "\": it is there twice");
}

Status CheckEntries(std::vector<SafetensorsEntry>& entries,
                    uint64_t data_bytes) {
  const auto is_before = [](const SafetensorsEntry& a,
                            const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  };
  if (!std::is_sorted(entries.begin(), entries.end(), is_before)) {
    std::stable_sort(entries.begin(), entries.end(), is_before);
  }
  uint64_t end = 0;
  const SafetensorsEntry* before = nullptr;
  for (const SafetensorsEntry& entry : entries) {
    const std::string range = "[" + std::to_string(entry.begin) + ", " +
                              std::to_string(entry.end) + "]";
    if (entry.end < entry.begin || entry.end > data_bytes) {
      return TensorError(entry, "data_offsets " + range +
                                    " are not inside the " +
                                    std::to_string(data_bytes) + " bytes");
    }
    const std::optional<uint64_t> bytes = EntryBytes(entry);
    if (!bytes || *bytes != entry.end - entry.begin) {
      return TensorError(
          entry, "data_offsets " + range + " are " +
                     std::to_string(entry.end - entry.begin) + " bytes, but " +
                     std::string(entry.dtype->name) +
                     ShapeToString(entry.shape) + " takes " +
                     (bytes ? std::to_string(*bytes) : "no number of bytes"));
    }
    if (entry.begin < end) {
      return TensorError(
          entry, "data_offsets " + range + " overlap those of tensor \"" +
                     before->name + "\", which end at " + std::to_string(end));
    }
    if (entry.begin > end) {
      return TensorError(entry, "the bytes from " + std::to_string(end) +
                                    " to its data_offsets " + range +
                                    " belong to no tensor");
    }
    end = entry.end;
    before = &entry;
  }
  if (end == data_bytes) return Status();
  return DataLossError("the file holds " + std::to_string(data_bytes) +
                       " bytes of data, want " + std::to_string(end) +
                       ", where the last tensor ends");
}

}  // namespace

const SafetensorsDType* FindSafetensorsDType(std::string_view name) {
  for (const SafetensorsDType& known : kSafetensorsDTypes) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

const SafetensorsDType& SafetensorsDTypeOf(DType dtype) {
  return kSafetensorsDTypes[SafetensorsDTypeRank(dtype)];
}

int SafetensorsDTypeRank(DType dtype) {
  for (size_t i = 0; i < kSafetensorsDTypes.size(); ++i) {
    if (kSafetensorsDTypes[i].dtype == dtype) return static_cast<int>(i);
  }
  assert(false);
  return 0;
}

Result<uint64_t> SafetensorsHeaderLength(std::string_view first_bytes,
                                         uint64_t file_bytes) {
  if (first_bytes.size() < kSafetensorsLengthBytes ||
      file_bytes < kSafetensorsLengthBytes) {
    return DataLossError("the file has " + std::to_string(file_bytes) +
                         " bytes, want the 8 of the header's length");
  }
  Cursor cursor(first_bytes);
  uint64_t length = 0;
  (void)cursor.ReadU64Little(length);
  if (length > kSafetensorsHeaderBytesMax) {
    return DataLossError("the header's length at offset 0 is " +
                         std::to_string(length) + ", more than " +
                         std::to_string(kSafetensorsHeaderBytesMax));
  }
  if (length > file_bytes - kSafetensorsLengthBytes) {
    return DataLossError("the header's length at offset 0 is " +
                         std::to_string(length) + ", but only " +
                         std::to_string(file_bytes - kSafetensorsLengthBytes) +
                         " bytes follow");
  }
  return length;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                 uint64_t data_bytes) {
  if (!json.starts_with('{')) {
    return DataLossError("the header at offset 8 does not begin with {");
  }
  HeaderSax sax;
  sax.header.entries.reserve(json.size() / kEntryTextBytes);
  if (!nlohmann::json::sax_parse(json, &sax)) {
    return DataLossError("the header: " + sax.error);
  }
  HF_RETURN_IF_ERROR(CheckNames(sax.header.entries));
  HF_RETURN_IF_ERROR(CheckEntries(sax.header.entries, data_bytes));
  return std::move(sax.header);
}

Result<std::string> SafetensorsHeaderBytes(const SafetensorsHeader& header) {
  std::string json = "{";
  const auto separate = [&] {
    if (json.size() > 1) json += ",";
  };
  if (!header.metadata.empty()) {
    AppendCompactJsonString(json, kSafetensorsMetadataKey);
    json += ":{";
    bool is_first = true;
    for (const auto& [name, text] : header.metadata) {
      if (!is_first) json += ",";
      is_first = false;
      AppendCompactJsonString(json, name);
      json += ":";
      AppendCompactJsonString(json, text);
    }
    json += "}";
  }
  for (const SafetensorsEntry& entry : header.entries) {
    separate();
    AppendCompactJsonString(json, entry.name);
    json +=
        ":{\"dtype\":\"" + std::string(entry.dtype->name) + "\",\"shape\":[";
    for (size_t d = 0; d < entry.shape.size(); ++d) {
      if (d > 0) json += ",";
      json += std::to_string(entry.shape[d]);
    }
    json += "],\"data_offsets\":[" + std::to_string(entry.begin) + "," +
            std::to_string(entry.end) + "]}";
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kSafetensorsWrittenHeaderBytesMax) {
    return ResourceExhaustedError(
        "the header would have " + std::to_string(json.size()) +
        " bytes, more than the " +
        std::to_string(kSafetensorsWrittenHeaderBytesMax) +
        " that a reader takes");
  }
  std::string bytes;
  PutU64Little(bytes, json.size());
  return bytes + json;
}

}  // namespace holdfast
