// JSON of specs: objects whose members keep their order.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument for text that is not JSON, or not an object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "holdfast/dtype.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::spec {

using OrderedJson = nlohmann::ordered_json;

// Returns compact JSON. Invalid UTF-8 becomes U+FFFD.
std::string Dump(const OrderedJson& value);
Result<OrderedJson> ParseDocument(std::string_view text);
Result<OrderedJson> ParseObject(std::string_view text);

OrderedJson ToJson(const Shape& shape);
OrderedJson ToJson(DType dtype);

}  // namespace holdfast::spec
