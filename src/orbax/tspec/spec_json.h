// JSON of specs: objects whose members keep the order in which they came.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument for what is no JSON or no object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "holdfast/dtype.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::spec {

using OrderedJson = nlohmann::ordered_json;

// Compact; bytes that are not UTF-8 become U+FFFD.
std::string Dump(const OrderedJson& value);
Result<OrderedJson> ParseDocument(std::string_view text);
Result<OrderedJson> ParseObject(std::string_view text);

OrderedJson ToJson(const Shape& shape);
OrderedJson ToJson(DType dtype);

}  // namespace holdfast::spec
