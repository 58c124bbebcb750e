// Strict reading of JSON values, with TensorStore's error messages.
//
// A pointer to a value is null if the member is missing.
// Thread-safety: pure functions. Ownership: pointers borrow the document.
// Errors: FailedPrecondition, e.g. `Expected array, but received: 3`.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "formats/zarr/format/braces.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::zarr {

using Json = nlohmann::json;

// Deeper nesting is refused, because printing and comparing values are
// recursive.
inline constexpr int kJsonDepthMax = 64;

// Accepts one JSON value, with whitespace and a UTF-8 byte order mark around
// it. The last of duplicate members wins. Anything else fails with `code` and
// "Invalid JSON".
Result<Json> ParseJson(std::string_view text, StatusCode code);
// Returns compact JSON, or InvalidArgument for a string that is not UTF-8.
Result<std::string> DumpJson(const Json& value);

// REQUIRES: object.is_object().
const Json* Find(const Json& object, std::string_view name);

// Returns "but received: 3" or "but member is missing".
std::string Received(const Json* value);

// Integers may be written as 3.0; booleans and strings are not integers.
Result<int64_t> ReadInt(const Json* value, int64_t low, int64_t high);
Result<uint64_t> ReadUint64(const Json* value);
Result<bool> ReadBool(const Json* value);
Result<std::string> ReadString(const Json* value);
Result<std::string> ReadOneOf(const Json* value,
                              std::initializer_list<std::string_view> choices);
Result<const Json*> ReadObject(const Json* value);
// `rank` is the required length of the array.
Result<const Json*> ReadArray(const Json* value,
                              std::optional<size_t> rank = std::nullopt);
// Reads a list of at most kRankMax extents, each >= low.
Result<Shape> ReadShape(const Json* value, int64_t low,
                        std::optional<size_t> rank = std::nullopt);
// Refuses members that are not listed.
Status CheckMembers(const Json& object,
                    std::initializer_list<std::string_view> names);

Status AtMember(std::string_view name, const Status& status);
Status AtPosition(size_t position, const Status& status);

// Adds `Error parsing object member "name"` to a failure.
template <typename T>
Result<T> InMember(std::string_view name, Result<T> result) {
  if (result.ok()) return result;
  return AtMember(name, result.status());
}

}  // namespace holdfast::zarr
