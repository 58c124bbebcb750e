// zarr v2: the text of `.zarray`.
#include "formats/zarr/format/codec_json.h"
#include "formats/zarr/format/dtype_names.h"
#include "formats/zarr/format/fill_value.h"
#include "formats/zarr/format/metadata.h"
#include "ground/base/status_macros.h"

namespace holdfast::zarr {
namespace {

// The nine members of the format. All of them are always written.
constexpr std::string_view kV2Members[] = {
    "chunks", "compressor", "dimension_separator",
    "dtype",  "fill_value", "filters",
    "order",  "shape",      "zarr_format"};

Result<StoredDType> ParseV2DType(const Json* value) {
  // A list is a structured dtype; for anything else, TensorStore expects an
  // array.
  if (value != nullptr && value->is_array()) {
    return UnimplementedError("structured zarr dtype is not supported: " +
                              Received(value).substr(14));
  }
  if (value == nullptr || !value->is_string()) {
    return FailedPreconditionError("Expected array, " + Received(value));
  }
  const std::optional<StoredDType> stored =
      DTypeFromV2(value->get_ref<const std::string&>());
  if (stored) return *stored;
  return UnimplementedError("Unsupported zarr dtype: " +
                            Received(value).substr(14));
}

Status ParseFilters(const Json* value) {
  if (value == nullptr || (!value->is_null() && !value->is_array())) {
    return FailedPreconditionError("Expected null or array, " +
                                   Received(value));
  }
  if (value->is_null() || value->empty()) return Status();
  return UnimplementedError("filters are not supported");
}

Status ParseFillMember(const Json* value, ArrayMetadata& metadata) {
  metadata.fill_is_null = value != nullptr && value->is_null();
  if (metadata.fill_is_null) {
    metadata.fill_element.assign(DTypeBytes(metadata.dtype), '\0');
    return Status();
  }
  HF_ASSIGN_OR_RETURN(metadata.fill_element,
                      ParseFill(metadata.dtype, value, 2));
  return Status();
}

Status ParseV2Separator(const Json* value, ArrayMetadata& metadata) {
  if (value == nullptr) return Status();  // the default, "."
  HF_ASSIGN_OR_RETURN(const std::string text, ReadOneOf(value, {".", "/"}));
  metadata.chunk_key_encoding.separator = text[0];
  return Status();
}

Status KeepUnknownV2Members(const Json& object, ArrayMetadata& metadata) {
  Json unknown = object;
  for (std::string_view name : kV2Members) unknown.erase(std::string(name));
  if (unknown.empty()) return Status();
  HF_ASSIGN_OR_RETURN(metadata.unknown_members, DumpJson(unknown));
  return Status();
}

// Prefixes `status`, the result of parsing a member, with the member's name.
Status Member(std::string_view name, const Status& status) {
  return status.ok() ? status : AtMember(name, status);
}

Status ParseV2Members(const Json& json, ArrayMetadata& metadata) {
  const auto find = [&json](std::string_view name) { return Find(json, name); };
  HF_RETURN_IF_ERROR(
      InMember("zarr_format", ReadInt(find("zarr_format"), 2, 2)).status());
  HF_ASSIGN_OR_RETURN(metadata.shape,
                      InMember("shape", ReadShape(find("shape"), 0)));
  HF_ASSIGN_OR_RETURN(
      metadata.chunk_shape,
      InMember("chunks", ReadShape(find("chunks"), 1, metadata.shape.size())));
  HF_ASSIGN_OR_RETURN(const StoredDType stored,
                      InMember("dtype", ParseV2DType(find("dtype"))));
  metadata.dtype = stored.dtype;
  metadata.endian = stored.endian;
  HF_ASSIGN_OR_RETURN(
      metadata.bytes_codecs,
      InMember("compressor", ParseCompressor(find("compressor"))));
  HF_RETURN_IF_ERROR(
      Member("fill_value", ParseFillMember(find("fill_value"), metadata)));
  HF_ASSIGN_OR_RETURN(const std::string order,
                      InMember("order", ReadOneOf(find("order"), {"C", "F"})));
  metadata.order = order[0];
  HF_RETURN_IF_ERROR(Member("filters", ParseFilters(find("filters"))));
  return Member("dimension_separator",
                ParseV2Separator(find("dimension_separator"), metadata));
}

}  // namespace

Result<ArrayMetadata> ParseV2(std::string_view json) {
  HF_ASSIGN_OR_RETURN(const Json value,
                      ParseJson(json, StatusCode::kFailedPrecondition));
  HF_RETURN_IF_ERROR(ReadObject(&value).status());
  ArrayMetadata metadata;
  HF_RETURN_IF_ERROR(ParseV2Members(value, metadata));
  HF_RETURN_IF_ERROR(KeepUnknownV2Members(value, metadata));
  HF_RETURN_IF_ERROR(CheckMetadata(metadata, StatusCode::kFailedPrecondition));
  return metadata;
}

Result<std::string> SerializeV2(const ArrayMetadata& metadata) {
  if (metadata.zarr_format != 2) {
    return InvalidArgumentError("SerializeV2 of metadata of zarr v3");
  }
  HF_RETURN_IF_ERROR(CheckMetadata(metadata));
  Json json = Json::object();
  if (!metadata.unknown_members.empty()) {
    HF_ASSIGN_OR_RETURN(json, ParseJson(metadata.unknown_members,
                                        StatusCode::kInvalidArgument));
    if (!json.is_object()) {
      return InvalidArgumentError("unknown_members is not a JSON object");
    }
  }
  json["chunks"] = metadata.chunk_shape;
  json["compressor"] = CompressorToJson(metadata.bytes_codecs);
  json["dimension_separator"] =
      std::string(1, metadata.chunk_key_encoding.separator);
  json["dtype"] = *DTypeToV2({metadata.dtype, metadata.endian});
  json["fill_value"] =
      metadata.fill_is_null
          ? Json(nullptr)
          : FillToJson(metadata.dtype, metadata.fill_element, 2);
  json["filters"] = nullptr;
  json["order"] = std::string(1, metadata.order);
  json["shape"] = metadata.shape;
  json["zarr_format"] = 2;
  return DumpJson(json);
}

}  // namespace holdfast::zarr
