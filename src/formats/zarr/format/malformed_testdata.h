// Borderline and malformed zarr arrays with the verdict of TensorStore 0.1.86
// on each. Some arrays have `accepted` false on purpose although TensorStore
// reads them: bytes after a compressed stream, C hexadecimal fill values,
// raw-bytes dtypes, a NUL after the JSON text, bz2.
//
// Thread-safety: constants. For tests only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace holdfast::zarr {

// A base document with some members replaced and one dropped, or a complete
// text; and the bytes of the array's first chunk.
struct MalformedCase {
  std::string_view name;
  bool accepted;
  std::string_view patch;    // members replaced in the base
  std::string_view dropped;  // a member of the base, or empty
  std::string_view whole;    // instead of base and patch
  bool has_chunk;
  std::string_view chunk_hex;
  // If accepted: the array's elements in C order, little endian, in hex. If
  // rejected: a part of TensorStore's message, or empty if the message is our
  // own.
  std::string_view expected;
};

inline std::string MetadataText(std::string_view base,
                                const MalformedCase& test_case) {
  if (!test_case.whole.empty()) return std::string(test_case.whole);
  nlohmann::json json = nlohmann::json::parse(base);
  json.update(nlohmann::json::parse(test_case.patch));
  json.erase(std::string(test_case.dropped));
  return json.dump();
}

}  // namespace holdfast::zarr
