// Reads the opcodes of a pickle and their arguments, with bounds checks.
//
// Thread-safety: one thread per reader. Ownership: borrows the pickle; strings
// that had to be decoded go into `texts`.
// Errors: DataLoss with the offset of the opcode.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast::pickle {

class PickleReader {
 public:
  PickleReader(std::string_view bytes, std::deque<std::string>& texts)
      : bytes_(bytes), texts_(texts) {}

  size_t offset() const { return offset_; }
  size_t opcode_offset() const { return opcode_offset_; }
  // True if an error says that the bytes end too early, so more bytes might fix
  // it.
  bool is_cut() const { return is_cut_; }

  Result<uint8_t> Opcode();
  // Reads `width` bytes, little endian.
  Result<uint64_t> Unsigned(size_t width);
  Result<int64_t> Int32();
  Result<double> BigEndianDouble();
  // Reads a length of `width` bytes, then as many bytes as it says. A negative
  // length of 4 signed bytes is refused.
  Result<std::string_view> Counted(size_t width, bool is_signed = false);
  // Reads up to the next newline and returns the line without it.
  Result<std::string_view> Line();
  // Like Line, but reads a Python literal in quotes.
  Result<std::string_view> QuotedLine();
  // Like Line, but reads text in raw-unicode-escape.
  Result<std::string_view> UnicodeLine();

  // Returns DataLoss "pickle: offset 12: <what>".
  Status Error(const std::string& what) const;
  std::string_view Keep(std::string text) {
    return texts_.emplace_back(std::move(text));
  }

 private:
  Status Cut(const std::string& what);

  std::string_view bytes_;
  std::deque<std::string>& texts_;
  size_t offset_ = 0;
  size_t opcode_offset_ = 0;
  bool is_cut_ = false;
};

// Returns true for UTF-8, with lone surrogates allowed as in Python's
// "surrogatepass".
bool IsPythonText(std::string_view utf8);
// Appends a code point, which may be a lone surrogate. REQUIRES: <= 0x10FFFF.
void AppendPythonChar(std::string& out, uint32_t code_point);
// Returns the code point at `position` and moves past it. REQUIRES:
// IsPythonText.
uint32_t NextPythonChar(std::string_view text, size_t& position);

}  // namespace holdfast::pickle
