// The `value_type` words of `_METADATA`, which record what each leaf was.
//
// Source: orbax-checkpoint 0.12.8, type handler typestrs and empty values.
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string_view>

namespace holdfast {

inline constexpr std::string_view kValueTypeJaxArray = "jax.Array";
inline constexpr std::string_view kValueTypeNumpy = "np.ndarray";
inline constexpr std::string_view kValueTypeScalar = "scalar";
inline constexpr std::string_view kValueTypeString = "string";
inline constexpr std::string_view kValueTypePlaceholder = "placeholder";
inline constexpr std::string_view kValueTypeUnknown = "Unknown";
inline constexpr std::string_view kValueTypeNone = "None";
inline constexpr std::string_view kValueTypeDict = "Dict";
inline constexpr std::string_view kValueTypeList = "List";
inline constexpr std::string_view kValueTypeTuple = "Tuple";
inline constexpr std::string_view kValueTypeNamedTuple = "NamedTuple";

// Returns true for None and empty containers, which are stored only as entries
// of `_METADATA`.
constexpr bool IsEmptyValueType(std::string_view value_type) {
  return value_type == kValueTypeNone || value_type == kValueTypeDict ||
         value_type == kValueTypeList || value_type == kValueTypeTuple ||
         value_type == kValueTypeNamedTuple;
}

// Returns false for a type of a caller's own TypeHandler, but true for "",
// because old checkpoints record no type.
constexpr bool IsStandardValueType(std::string_view value_type) {
  return IsEmptyValueType(value_type) || value_type.empty() ||
         value_type == kValueTypeJaxArray || value_type == kValueTypeNumpy ||
         value_type == kValueTypeScalar || value_type == kValueTypeString ||
         value_type == kValueTypePlaceholder || value_type == kValueTypeUnknown;
}

}  // namespace holdfast
