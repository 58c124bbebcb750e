// JsonScanner: reads JSON text from front to back, without building a document.
//
// Accepts what Python's json module writes: RFC 8259, and the words NaN,
// Infinity and -Infinity. Otherwise strict: unpaired surrogate escapes and
// bytes that are not UTF-8 are refused.
//
//   JsonScanner in(text);
//   HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
//     if (key == "n") return in.ReadInt64(n);
//     return in.SkipValue();
//   }));
//   HF_RETURN_IF_ERROR(in.ReadEnd());
//
// Thread-safety: one thread per scanner. Ownership: borrows the text.
// Units: offsets in bytes.
// Errors: DataLoss "member: member: offset N: why"; after a failure the scanner
// must not be used again. Containers deeper than kJsonDepthMax are refused.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ground/base/status_macros.h"
#include "holdfast/status.h"

namespace holdfast {

inline constexpr int kJsonDepthMax = 128;

// Returns an integer beyond 64 bits as a binary value with a subtype, because
// documents have no type for it. AppendPythonJson writes it as a number.
nlohmann::ordered_json BigInteger(std::string_view digits);
// Returns the digits of such a value, or nullopt for any other value.
std::optional<std::string> DigitsOfBigInteger(
    const nlohmann::ordered_json& value);

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  size_t offset() const { return offset_; }

  // Returns the first character of the next token: one of
  // {["-0123456789tfnNI}],: or 0 at the end.
  char Peek();
  bool NextIsNull() { return Peek() == 'n'; }

  Status ReadString(std::string& value);
  Status ReadInt64(int64_t& value);
  Status ReadUint64(uint64_t& value);
  Status ReadBool(bool& value);
  Status ReadNull();
  // Reads any value as a document; of duplicate members the last one wins, as
  // in Python. Integers beyond 64 bits keep their digits (BigInteger).
  Status ReadDocument(nlohmann::ordered_json& value);
  Status SkipValue();
  // Checks that only white space is left.
  Status ReadEnd();

  // Calls on_member(std::string_view key) for each member. on_member must read
  // the member's value. The key is valid until the next read.
  template <typename OnMember>
  Status ReadObject(const OnMember& on_member);
  // Calls on_element() for each element. on_element must read the element.
  template <typename OnElement>
  Status ReadArray(const OnElement& on_element);

  // Returns DataLoss "offset N: why" for the current offset.
  Status Error(std::string_view why) const;

 private:
  Status Open(char bracket);
  // Sets `more` to whether another item follows; consumes the comma or the
  // closing bracket.
  Status Next(char closing, bool is_first, bool& more);
  // Reads a key and its colon. The view points into the text, or into `scratch`
  // if the key has escapes.
  Status ReadKey(std::string& scratch, std::string_view& key);
  // Reads a string token. `value` points into the text or into `scratch`, as in
  // ReadKey.
  Status ReadStringView(std::string& scratch, std::string_view& value);
  Status ReadEscapes(size_t start, std::string& value);
  Status ReadEscape(std::string& value);
  bool ReadHex4(uint32_t& value);
  Status ReadUnicodeEscape(std::string& value);
  Status ReadWord(std::string_view word);
  Status ReadNumberToken(std::string_view& token, bool& is_integer);
  Status ReadNumber(nlohmann::ordered_json& value);
  template <typename Int>
  Status ReadInteger(Int& value);
  Status WantError(std::string_view want);

  std::string_view text_;
  size_t offset_ = 0;
  int depth_ = 0;
};

template <typename OnMember>
Status JsonScanner::ReadObject(const OnMember& on_member) {
  HF_RETURN_IF_ERROR(Open('{'));
  std::string scratch;
  std::string_view key;
  bool more = false;
  for (bool is_first = true;; is_first = false) {
    HF_RETURN_IF_ERROR(Next('}', is_first, more));
    if (!more) return Status();
    HF_RETURN_IF_ERROR(ReadKey(scratch, key));
    Status status = on_member(key);
    if (!status.ok()) return status.WithContext(key);
  }
}

template <typename OnElement>
Status JsonScanner::ReadArray(const OnElement& on_element) {
  HF_RETURN_IF_ERROR(Open('['));
  bool more = false;
  for (bool is_first = true;; is_first = false) {
    HF_RETURN_IF_ERROR(Next(']', is_first, more));
    if (!more) return Status();
    HF_RETURN_IF_ERROR(on_element());
  }
}

}  // namespace holdfast
