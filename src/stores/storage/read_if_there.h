// Reads and parses small objects that may be missing.
//
// Thread-safety: as Store. Ownership: results own their values.
// Errors: those of the store; those of `parse`, naming the object.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "stores/storage/store.h"

namespace holdfast {

// Returns the result of `parse` for the object; nullopt if the object is
// missing.
template <typename T>
Result<std::optional<T>> ReadIfThere(Store& store, std::string_view key,
                                     Result<T> (*parse)(std::string_view)) {
  const Result<Bytes> text = store.Read(key);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<T>();
  if (!text.ok()) return text.status();
  Result<T> parsed = parse(text->view());
  if (!parsed.ok()) return parsed.status().WithContext(store.Describe(key));
  return std::optional<T>(std::move(parsed).value());
}

// Like ReadIfThere, but returns T() if the object is missing.
template <typename T>
Result<T> ReadOrEmpty(Store& store, std::string_view key,
                      Result<T> (*parse)(std::string_view)) {
  Result<std::optional<T>> read = ReadIfThere(store, key, parse);
  if (!read.ok()) return read.status();
  return *read ? **std::move(read) : T();
}

}  // namespace holdfast
