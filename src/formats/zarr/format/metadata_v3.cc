// zarr v3: the text of `zarr.json`.
#include "formats/zarr/format/codec_json.h"
#include "formats/zarr/format/dtype_names.h"
#include "formats/zarr/format/fill_value.h"
#include "formats/zarr/format/metadata.h"
#include "ground/base/status_macros.h"

namespace holdfast::zarr {
namespace {

constexpr std::string_view kV3Members[] = {
    "attributes", "chunk_grid",      "chunk_key_encoding",  "codecs",
    "data_type",  "dimension_names", "fill_value",          "node_type",
    "shape",      "zarr_format",     "storage_transformers"};

char DefaultSeparator(ChunkKeyEncoding::Kind kind) {
  return kind == ChunkKeyEncoding::Kind::kDefault ? '/' : '.';
}

std::string SupportedDTypes() {
  std::string names;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto name = DTypeToV3(static_cast<DType>(i));
    if (!name) continue;
    if (!names.empty()) names += ", ";
    names += *name;
  }
  return names;
}

Result<DType> ParseV3DType(const Json* value) {
  if (value == nullptr) {
    return FailedPreconditionError("Expected string, " + Received(value));
  }
  if (!value->is_string()) {
    return UnimplementedError("Expected string, " + Received(value));
  }
  const std::string& name = value->get_ref<const std::string&>();
  if (const std::optional<DType> dtype = DTypeFromV3(name)) return *dtype;
  return UnimplementedError(
      name + " data type is not one of the supported data types: " +
      SupportedDTypes());
}

// Checks for {"name": ..., "configuration": {...}} without further members.
Status CheckNamedObject(const Json* value) {
  HF_RETURN_IF_ERROR(ReadObject(value).status());
  return CheckMembers(*value, {"name", "configuration"});
}

Result<Shape> ParseGrid(const Json* value, size_t rank) {
  HF_RETURN_IF_ERROR(CheckNamedObject(value));
  HF_RETURN_IF_ERROR(
      InMember("name", ReadOneOf(Find(*value, "name"), {"regular"})).status());
  const Json* member = Find(*value, "configuration");
  HF_ASSIGN_OR_RETURN(const Json* configuration,
                      InMember("configuration", ReadObject(member)));
  Status extra = CheckMembers(*configuration, {"chunk_shape"});
  if (!extra.ok()) return AtMember("configuration", extra);
  const Json* chunk_shape = Find(*configuration, "chunk_shape");
  return InMember("configuration",
                  InMember("chunk_shape", ReadShape(chunk_shape, 1, rank)));
}

Result<char> ParseV3Separator(const Json& configuration,
                              ChunkKeyEncoding::Kind kind) {
  HF_RETURN_IF_ERROR(ReadObject(&configuration).status());
  HF_RETURN_IF_ERROR(CheckMembers(configuration, {"separator"}));
  const Json* separator = Find(configuration, "separator");
  if (separator == nullptr) return DefaultSeparator(kind);
  HF_ASSIGN_OR_RETURN(const std::string text,
                      InMember("separator", ReadOneOf(separator, {".", "/"})));
  return text[0];
}

Result<ChunkKeyEncoding> ParseKeyEncoding(const Json* value) {
  HF_RETURN_IF_ERROR(CheckNamedObject(value));
  HF_ASSIGN_OR_RETURN(
      const std::string name,
      InMember("name", ReadOneOf(Find(*value, "name"), {"default", "v2"})));
  ChunkKeyEncoding encoding;
  encoding.kind = name == "default" ? ChunkKeyEncoding::Kind::kDefault
                                    : ChunkKeyEncoding::Kind::kV2;
  encoding.separator = DefaultSeparator(encoding.kind);
  if (const Json* configuration = Find(*value, "configuration")) {
    HF_ASSIGN_OR_RETURN(
        encoding.separator,
        InMember("configuration",
                 ParseV3Separator(*configuration, encoding.kind)));
  }
  return encoding;
}

Result<std::string> ParseAttributes(const Json* value) {
  if (value == nullptr) return std::string();
  HF_RETURN_IF_ERROR(ReadObject(value).status());
  if (value->empty()) return std::string();
  return DumpJson(*value);
}

Result<std::vector<std::optional<std::string>>> ParseDimensionNames(
    const Json* value, size_t rank) {
  std::vector<std::optional<std::string>> names;
  if (value == nullptr) return names;
  HF_ASSIGN_OR_RETURN(const Json* list, ReadArray(value, rank));
  bool any = false;
  for (const Json& item : *list) {
    names.emplace_back();
    if (item.is_null()) continue;
    Result<std::string> name = ReadString(&item);
    if (!name.ok()) return AtPosition(names.size() - 1, name.status());
    names.back() = *std::move(name);
    any = true;
  }
  if (!any) names.clear();
  return names;
}

Status ParseStorageTransformers(const Json* value) {
  if (value == nullptr) return Status();
  HF_ASSIGN_OR_RETURN(const Json* list, ReadArray(value));
  if (list->empty()) return Status();
  return UnimplementedError("No storage transformers supported");
}

Status KeepUnknownV3Members(const Json& object, ArrayMetadata& metadata) {
  Json unknown = object;
  for (std::string_view name : kV3Members) unknown.erase(std::string(name));
  for (const auto& [name, value] : unknown.items()) {
    const Json* must =
        value.is_object() ? Find(value, "must_understand") : nullptr;
    if (must != nullptr && *must == Json(false)) continue;
    return FailedPreconditionError(
        "Unsupported metadata field " + Json(name).dump() +
        " is not marked {\"must_understand\": false}");
  }
  if (unknown.empty()) return Status();
  HF_ASSIGN_OR_RETURN(metadata.unknown_members, DumpJson(unknown));
  return Status();
}

Status ParseCodecMember(const Json* value, ArrayMetadata& metadata) {
  HF_ASSIGN_OR_RETURN(CodecList codecs,
                      InMember("codecs", ParseCodecs(value, metadata.dtype,
                                                     metadata.shape.size())));
  metadata.transposes = std::move(codecs.transposes);
  metadata.endian = codecs.endian;
  metadata.sharding = std::move(codecs.sharding);
  metadata.bytes_codecs = std::move(codecs.bytes_codecs);
  return Status();
}

Status ParseV3Members(const Json& json, ArrayMetadata& metadata) {
  const auto find = [&json](std::string_view name) { return Find(json, name); };
  HF_RETURN_IF_ERROR(
      InMember("zarr_format", ReadInt(find("zarr_format"), 3, 3)).status());
  HF_RETURN_IF_ERROR(
      InMember("node_type", ReadOneOf(find("node_type"), {"array"})).status());
  HF_ASSIGN_OR_RETURN(metadata.shape,
                      InMember("shape", ReadShape(find("shape"), 0)));
  const size_t rank = metadata.shape.size();
  HF_ASSIGN_OR_RETURN(metadata.dtype,
                      InMember("data_type", ParseV3DType(find("data_type"))));
  HF_ASSIGN_OR_RETURN(
      metadata.chunk_shape,
      InMember("chunk_grid", ParseGrid(find("chunk_grid"), rank)));
  HF_ASSIGN_OR_RETURN(metadata.chunk_key_encoding,
                      InMember("chunk_key_encoding",
                               ParseKeyEncoding(find("chunk_key_encoding"))));
  HF_ASSIGN_OR_RETURN(
      metadata.fill_element,
      InMember("fill_value", ParseFill(metadata.dtype, find("fill_value"), 3)));
  HF_ASSIGN_OR_RETURN(
      metadata.attributes,
      InMember("attributes", ParseAttributes(find("attributes"))));
  HF_ASSIGN_OR_RETURN(
      metadata.dimension_names,
      InMember("dimension_names",
               ParseDimensionNames(find("dimension_names"), rank)));
  Status transformers = ParseStorageTransformers(find("storage_transformers"));
  if (!transformers.ok()) return AtMember("storage_transformers", transformers);
  return ParseCodecMember(find("codecs"), metadata);
}

Json KeyEncodingToJson(const ChunkKeyEncoding& encoding) {
  const bool is_default = encoding.kind == ChunkKeyEncoding::Kind::kDefault;
  Json json = {{"name", is_default ? "default" : "v2"}};
  if (encoding.separator != DefaultSeparator(encoding.kind)) {
    json["configuration"] = {{"separator", std::string(1, encoding.separator)}};
  }
  return json;
}

Json DimensionNamesToJson(
    const std::vector<std::optional<std::string>>& names) {
  Json list = Json::array();
  for (const auto& name : names) list.push_back(name ? Json(*name) : Json());
  return list;
}

// Parses `text`, which must hold an object; empty text is an empty object.
Result<Json> ParseObjectText(const std::string& text, std::string_view what) {
  if (text.empty()) return Json::object();
  HF_ASSIGN_OR_RETURN(Json json, ParseJson(text, StatusCode::kInvalidArgument));
  if (json.is_object()) return json;
  return InvalidArgumentError(std::string(what) + " is not a JSON object");
}

void PutOptionalMembers(const ArrayMetadata& metadata, Json attributes,
                        Json& json) {
  if (!attributes.empty()) json["attributes"] = std::move(attributes);
  bool any_name = false;
  for (const auto& name : metadata.dimension_names) {
    any_name = any_name || name.has_value();
  }
  if (any_name) {
    json["dimension_names"] = DimensionNamesToJson(metadata.dimension_names);
  }
}

}  // namespace

Result<ArrayMetadata> ParseV3(std::string_view json) {
  // TensorStore also reports DataLoss for a zarr.json that is not JSON.
  HF_ASSIGN_OR_RETURN(const Json value, ParseJson(json, StatusCode::kDataLoss));
  HF_RETURN_IF_ERROR(ReadObject(&value).status());
  ArrayMetadata metadata;
  metadata.zarr_format = 3;
  HF_RETURN_IF_ERROR(ParseV3Members(value, metadata));
  HF_RETURN_IF_ERROR(KeepUnknownV3Members(value, metadata));
  HF_RETURN_IF_ERROR(CheckMetadata(metadata, StatusCode::kFailedPrecondition));
  return metadata;
}

Result<std::string> SerializeV3(const ArrayMetadata& metadata) {
  if (metadata.zarr_format != 3) {
    return InvalidArgumentError("SerializeV3 of metadata of zarr v2");
  }
  HF_RETURN_IF_ERROR(CheckMetadata(metadata));
  HF_ASSIGN_OR_RETURN(
      Json json, ParseObjectText(metadata.unknown_members, "unknown_members"));
  HF_ASSIGN_OR_RETURN(Json attributes,
                      ParseObjectText(metadata.attributes, "attributes"));
  PutOptionalMembers(metadata, std::move(attributes), json);
  json["chunk_grid"] = {
      {"name", "regular"},
      {"configuration", {{"chunk_shape", metadata.chunk_shape}}}};
  json["chunk_key_encoding"] = KeyEncodingToJson(metadata.chunk_key_encoding);
  json["codecs"] = CodecsToJson({.transposes = metadata.transposes,
                                 .endian = metadata.endian,
                                 .sharding = metadata.sharding,
                                 .bytes_codecs = metadata.bytes_codecs},
                                metadata.dtype);
  json["data_type"] = *DTypeToV3(metadata.dtype);
  json["fill_value"] = FillToJson(metadata.dtype, metadata.fill_element, 3);
  json["node_type"] = "array";
  json["shape"] = metadata.shape;
  json["zarr_format"] = 3;
  return DumpJson(json);
}

}  // namespace holdfast::zarr
