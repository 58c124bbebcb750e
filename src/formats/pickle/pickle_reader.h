// The arguments of a pickle's opcodes, each bound checked.
//
// Thread-safety: one thread a reader. Ownership: borrows the pickle; texts that
// had to be decoded go into `texts`.
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
  // An error said that the bytes end too early: more of them might mend it.
  bool is_cut() const { return is_cut_; }

  Result<uint8_t> Opcode();
  // `width` bytes, little endian.
  Result<uint64_t> Unsigned(size_t width);
  Result<int64_t> Int32();
  Result<double> BigEndianDouble();
  // Reads `width` bytes of length (a negative one of 4 signed bytes is
  // refused), then as many bytes.
  Result<std::string_view> Counted(size_t width, bool is_signed = false);
  // Up to the next newline, without it.
  Result<std::string_view> Line();
  // The same for a Python literal in quotes.
  Result<std::string_view> QuotedLine();
  // The same, in raw-unicode-escape.
  Result<std::string_view> UnicodeLine();

  // "pickle: offset 12: <what>".
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

// UTF-8 in which lone surrogates may stand, as Python's "surrogatepass" has it.
bool IsPythonText(std::string_view utf8);
// Appends a code point, lone surrogates too. REQUIRES: <= 0x10FFFF.
void AppendPythonChar(std::string& out, uint32_t code_point);
// The code point at `position`, which moves past it. REQUIRES: IsPythonText.
uint32_t NextPythonChar(std::string_view text, size_t& position);

}  // namespace holdfast::pickle
