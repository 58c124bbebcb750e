#include "orbax/tspec/array_metadata_spec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "formats/zarr/format/dtype_names.h"
#include "ground/base/status_macros.h"

namespace holdfast::spec {
namespace {

using zarr::ArrayMetadata;
using zarr::Find;
using zarr::InMember;
using zarr::Json;

constexpr int kZstdLevel = 3;

std::string Text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status CannotCreate(const std::string& why) {
  return InvalidArgumentError(
      "Cannot create using specified \"metadata\" and schema: " + why);
}

Json CompleteCodecs(const Json& codecs);

// Adds the members that a spec may leave out, but stored metadata may not.
Json CompleteCodec(Json codec) {
  const Json* const name = Find(codec, "name");
  if (name == nullptr) return codec;
  Json& configuration = codec["configuration"];
  if (configuration.is_null()) configuration = Json::object();
  if (!configuration.is_object()) return codec;  // the parser will refuse it
  if (*name == "zstd" && !configuration.contains("level")) {
    configuration["level"] = kZstdLevel;
  }
  if (*name == "bytes" && !configuration.contains("endian")) {
    configuration["endian"] = "little";
  }
  if (*name == "sharding_indexed") {
    const Json none = Json::array();
    configuration["codecs"] =
        CompleteCodecs(configuration.value("codecs", none));
    const Json crc32c = {{"name", "crc32c"}};
    configuration["index_codecs"] = CompleteCodecs(
        configuration.value("index_codecs", Json::array({crc32c})));
  }
  if (configuration.empty()) codec.erase("configuration");
  return codec;
}

bool IsNamed(const Json& codec, std::string_view name) {
  const Json* const found = codec.is_object() ? Find(codec, "name") : nullptr;
  return found != nullptr && *found == name;
}

// Completes a chain of codecs. Exactly one codec converts an array to bytes. If
// the chain names none, it is `bytes`.
Json CompleteCodecs(const Json& codecs) {
  if (!codecs.is_array()) return codecs;
  Json complete = Json::array();
  bool makes_bytes =
      std::any_of(codecs.begin(), codecs.end(), [](const Json& codec) {
        return IsNamed(codec, "bytes") || IsNamed(codec, "sharding_indexed");
      });
  const Json bytes = CompleteCodec({{"name", "bytes"}});
  for (const Json& codec : codecs) {
    if (!makes_bytes && !IsNamed(codec, "transpose")) {
      complete.push_back(bytes);
      makes_bytes = true;
    }
    complete.push_back(codec.is_object() ? CompleteCodec(codec) : codec);
  }
  if (!makes_bytes) complete.push_back(bytes);
  return complete;
}

Json CompleteMember(const std::string& name, const Json& value) {
  return name == "codecs" ? CompleteCodecs(value) : value;
}

Result<ArrayMetadata> Parse(int zarr_format, const Json& json) {
  const std::string text = Text(json);
  return zarr_format == 3 ? zarr::ParseV3(text) : zarr::ParseV2(text);
}

Result<DType> DTypeOfConstraints(const ArrayConstraints& constraints) {
  const bool is_v3 = constraints.zarr_format == 3;
  const char* const member = is_v3 ? "data_type" : "dtype";
  const Json* const value = constraints.metadata.is_object()
                                ? Find(constraints.metadata, member)
                                : nullptr;
  if (value == nullptr || !value->is_string()) {
    if (constraints.dtype) return *constraints.dtype;
    return CannotCreate("\"dtype\" must be specified");
  }
  const std::string text = value->get<std::string>();
  std::optional<DType> dtype;
  if (is_v3) {
    dtype = zarr::DTypeFromV3(text);
  } else if (const auto stored = zarr::DTypeFromV2(text)) {
    dtype = stored->dtype;
  }
  if (!dtype) return CannotCreate("unsupported data type: " + Text(*value));
  if (constraints.dtype && *constraints.dtype != *dtype) {
    return InvalidArgumentError(
        "dtype from metadata (" + std::string(DTypeName(*dtype)) +
        ") does not match dtype in schema (" +
        std::string(DTypeName(*constraints.dtype)) + ")");
  }
  return *dtype;
}

Result<Shape> ShapeOf(const ArrayConstraints& constraints) {
  const Json* const shape = constraints.metadata.is_object()
                                ? Find(constraints.metadata, "shape")
                                : nullptr;
  if (shape == nullptr) return CannotCreate("domain must be specified");
  return InMember("shape", zarr::ReadShape(shape, 0));
}

// Returns all members that TensorStore writes for an array of which only shape
// and dtype are specified.
Result<Json> Template(int zarr_format, const Shape& shape, DType dtype) {
  Shape chunk_shape = shape;
  for (int64_t& extent : chunk_shape) extent = std::max<int64_t>(extent, 1);
  const ArrayMetadata metadata =
      zarr_format == 3
          ? zarr::OrbaxV3(shape, dtype, chunk_shape, zarr::Compression::kNone)
          : zarr::OrbaxV2(shape, dtype, chunk_shape, zarr::Compression::kNone);
  HF_ASSIGN_OR_RETURN(const std::string text,
                      zarr::SerializeMetadata(metadata));
  HF_ASSIGN_OR_RETURN(Json json, zarr::ParseJson(text, StatusCode::kInternal));
  if (zarr_format == 3) {
    json["codecs"] = CompleteCodecs(Json::array());
  } else {
    json["compressor"] = {{"id", "blosc"},
                          {"cname", "lz4"},
                          {"clevel", 5},
                          {"shuffle", -1},
                          {"blocksize", 0}};
  }
  return json;
}

Status Differs(const std::string& name, const Json& want, const Json* got) {
  return FailedPreconditionError(
      "Expected \"" + name + "\" of " + Text(want) +
      " but received: " + (got == nullptr ? "null" : Text(*got)));
}

}  // namespace

Status CheckConstraints(const ArrayConstraints& constraints) {
  if (constraints.metadata.is_null() || constraints.zarr_format == 3) {
    return Status();
  }
  return zarr::CheckMembers(
      constraints.metadata,
      {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value",
       "order", "filters", "dimension_separator"});
}

Result<ArrayMetadata> CompleteMetadata(const ArrayConstraints& constraints) {
  HF_ASSIGN_OR_RETURN(const DType dtype, DTypeOfConstraints(constraints));
  HF_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(constraints));
  HF_ASSIGN_OR_RETURN(Json json,
                      Template(constraints.zarr_format, shape, dtype));
  for (const auto& [name, value] : constraints.metadata.items()) {
    json[name] = CompleteMember(name, value);
  }
  Result<ArrayMetadata> metadata = Parse(constraints.zarr_format, json);
  if (metadata.ok()) return metadata;
  return InMember("metadata", std::move(metadata));
}

Status CheckStored(const ArrayConstraints& constraints, std::string_view text,
                   const ArrayMetadata& stored) {
  if (!constraints.metadata.is_null()) {
    HF_ASSIGN_OR_RETURN(const Json json,
                        zarr::ParseJson(text, StatusCode::kDataLoss));
    for (const auto& [name, value] : constraints.metadata.items()) {
      Json merged = json;
      merged[name] = CompleteMember(name, value);
      const Result<ArrayMetadata> demanded =
          Parse(constraints.zarr_format, merged);
      if (demanded.ok() && *demanded == stored) continue;
      return Differs(name, value, Find(json, name));
    }
  }
  if (!constraints.dtype || *constraints.dtype == stored.dtype) return Status();
  return FailedPreconditionError(
      "dtype from metadata (" + std::string(DTypeName(stored.dtype)) +
      ") does not match dtype in schema (" +
      std::string(DTypeName(*constraints.dtype)) + ")");
}

}  // namespace holdfast::spec
