#include "orbax/tspec/spec_json.h"

#include "ground/base/status_macros.h"
#include "ground/json/text.h"

namespace holdfast::spec {

std::string Dump(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Result<OrderedJson> ParseDocument(std::string_view text) {
  Result<OrderedJson> value = ParseJsonText(text);
  if (value.ok()) return value;
  return InvalidArgumentError("spec: " + std::string(value.status().message()));
}

Result<OrderedJson> ParseObject(std::string_view text) {
  HF_ASSIGN_OR_RETURN(OrderedJson value, ParseDocument(text));
  if (value.is_object()) return value;
  return InvalidArgumentError("Expected object, but received: " + Dump(value));
}

OrderedJson ToJson(const Shape& shape) {
  OrderedJson list = OrderedJson::array();
  for (const int64_t extent : shape) list.push_back(extent);
  return list;
}

OrderedJson ToJson(DType dtype) { return std::string(DTypeName(dtype)); }

}  // namespace holdfast::spec
