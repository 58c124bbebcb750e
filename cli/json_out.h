// JsonWriter: writes one JSON value to a stream, call by call, with Python's
// separators (", " and ": "). The output is always valid UTF-8: malformed bytes
// become U+FFFD.
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
  // Writes the shortest text that reads back as the same double; NaN and the
  // infinities become the strings "NaN", "Infinity", "-Infinity".
  void Double(double value);
  void Bool(bool value);
  void Null();
  // Writes `json` unchanged. REQUIRES: valid JSON.
  void Raw(std::string_view json);

  // Writes a key and its value.
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
  // Writes another program's metadata: unchanged if `text` is JSON, null if it
  // is empty, else as a string.
  void EmbeddedField(std::string_view key, std::string_view text);

 private:
  void Separate();
  void Begin(char bracket);
  void End(char bracket);

  std::ostream& out_;
  std::vector<bool> has_member_;  // one per open bracket
  bool after_key_ = false;
};

// Returns `text` escaped and in quotes.
std::string JsonQuoted(std::string_view text);

}  // namespace holdfast::cli
