// JsonWriter: writes one JSON value to a stream as it is told, with Python's
// separators (", " and ": "). Output is valid UTF-8 whatever the input is:
// malformed bytes become U+FFFD.
//
// Thread-safety: one thread at a time.
// Ownership: borrows the stream.
// Errors: none; calls out of order are asserted.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/tensor.h"

namespace holdfast::cli {

class JsonWriter {
 public:
  explicit JsonWriter(std::ostream& out) : out_(out) {}

  void BeginObject() { Begin('{'); }
  void EndObject() { End('}'); }
  void BeginArray() { Begin('['); }
  void EndArray() { End(']'); }
  // REQUIRES: directly inside an object; a value follows.
  void Key(std::string_view key);

  void String(std::string_view text);
  void Int(int64_t value);
  void Uint(uint64_t value);
  // Shortest text that reads back as the same double; not-a-number and the
  // infinities as the strings "NaN", "Infinity", "-Infinity".
  void Double(double value);
  void Bool(bool value);
  void Null();
  // `json` as it is. REQUIRES: valid JSON.
  void Raw(std::string_view json);

  // Key and value at once.
  void Field(std::string_view key, std::string_view text);
  void Field(std::string_view key, const char* text) {
    Field(key, std::string_view(text));
  }
  void Field(std::string_view key, const std::string& text) {
    Field(key, std::string_view(text));
  }
  void Field(std::string_view key, uint64_t value);
  void Field(std::string_view key, int64_t value);
  void Field(std::string_view key, int value) {
    Field(key, static_cast<int64_t>(value));
  }
  void Field(std::string_view key, double value);
  void Field(std::string_view key, bool value);
  void NullField(std::string_view key);
  void ShapeField(std::string_view key, const Shape& shape);
  void StringsField(std::string_view key,
                    const std::vector<std::string>& texts);
  // `text` as JSON when it is JSON, as a string when it is not, null when
  // empty. For metadata of other programs.
  void EmbeddedField(std::string_view key, std::string_view text);

 private:
  void Separate();
  void Begin(char bracket);
  void End(char bracket);

  std::ostream& out_;
  std::vector<bool> has_member_;  // one an open bracket
  bool after_key_ = false;
};

// `text` in quotes, escaped.
std::string JsonQuoted(std::string_view text);

}  // namespace holdfast::cli
