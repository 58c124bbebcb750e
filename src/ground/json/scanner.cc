#include "ground/json/scanner.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "ground/base/utf8.h"

namespace holdfast {
namespace {

constexpr uint8_t kBigIntegerSubtype = 1;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view KindOf(char c) {
  switch (c) {
    case '{':
      return "an object";
    case '[':
      return "an array";
    case '"':
      return "a string";
    case 't':
    case 'f':
      return "a bool";
    case 'n':
      return "null";
    case 0:
      return "the end of the text";
    default:
      return IsDigit(c) || c == '-' || c == 'N' || c == 'I' ? "a number"
                                                            : "punctuation";
  }
}

// Returns the position after the digits that begin at `position`.
size_t SkipDigits(std::string_view text, size_t position) {
  while (position < text.size() && IsDigit(text[position])) ++position;
  return position;
}

// ordered_json finds a member by checking each one. The index keeps the time
// linear for an object with many members.
class ObjectBuilder {
 public:
  explicit ObjectBuilder(nlohmann::ordered_json& value)
      : members_(value.get_ref<nlohmann::ordered_json::object_t&>()) {}

  nlohmann::ordered_json& Member(std::string_view key) {
    const auto [entry, is_new] =
        // As in Python, the last of equal keys wins, in the position of the
        // first.
        index_.emplace(std::string(key), members_.size());
    if (is_new) members_.emplace_back(entry->first, nullptr);
    return (members_.begin() + entry->second)->second;
  }

 private:
  nlohmann::ordered_json::object_t& members_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace

char JsonScanner::Peek() {
  while (offset_ < text_.size()) {
    const char c = text_[offset_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
    ++offset_;
  }
  return 0;
}

Status JsonScanner::Error(std::string_view why) const {
  return DataLossError("offset " + std::to_string(offset_) + ": " +
                       std::string(why));
}

Status JsonScanner::WantError(std::string_view want) {
  const std::string_view got = KindOf(Peek());
  return Error("wrong type (got " + std::string(got) + ", want " +
               std::string(want) + ")");
}

Status JsonScanner::Open(char bracket) {
  if (Peek() != bracket) return WantError(KindOf(bracket));
  if (depth_ >= kJsonDepthMax) {
    return Error("nested too deep (want " + std::to_string(kJsonDepthMax) +
                 " levels at most)");
  }
  ++depth_;
  ++offset_;
  return Status();
}

Status JsonScanner::Next(char closing, bool is_first, bool& more) {
  const char c = Peek();
  more = c != closing;
  if (!more) {
    --depth_;
    ++offset_;
    return Status();
  }
  if (is_first) return Status();
  if (c != ',') {
    return Error(std::string("want ',' or '") + closing + "'");
  }
  ++offset_;
  return Status();
}

Status JsonScanner::ReadKey(std::string& scratch, std::string_view& key) {
  HF_RETURN_IF_ERROR(ReadStringView(scratch, key));
  if (Peek() != ':') return Error("want ':' after a member name");
  ++offset_;
  return Status();
}

Status JsonScanner::ReadStringView(std::string& scratch,
                                   std::string_view& value) {
  if (Peek() != '"') return WantError("a string");
  const size_t start = ++offset_;
  bool is_ascii = true;
  while (offset_ < text_.size()) {
    const uint8_t c = static_cast<uint8_t>(text_[offset_]);
    if (c == '"') {
      value = text_.substr(start, offset_ - start);
      if (!is_ascii && !IsValidUtf8(value)) return Error("not valid UTF-8");
      ++offset_;
      return Status();
    }
    if (c == '\\') {
      HF_RETURN_IF_ERROR(ReadEscapes(start, scratch));
      value = scratch;
      return Status();
    }
    if (c < 0x20) return Error("control character in a string");
    is_ascii &= c < 0x80;
    ++offset_;
  }
  return Error("string does not end");
}

// Reads the rest of a string whose first escape is at offset_.
Status JsonScanner::ReadEscapes(size_t start, std::string& value) {
  value.assign(text_.substr(start, offset_ - start));
  while (offset_ < text_.size()) {
    const uint8_t c = static_cast<uint8_t>(text_[offset_]);
    if (c < 0x20) return Error("control character in a string");
    ++offset_;
    if (c == '"') {
      if (!IsValidUtf8(value)) return Error("not valid UTF-8");
      return Status();
    }
    if (c != '\\') {
      value += static_cast<char>(c);
      continue;
    }
    HF_RETURN_IF_ERROR(ReadEscape(value));
  }
  return Error("string does not end");
}

Status JsonScanner::ReadEscape(std::string& value) {
  if (offset_ >= text_.size()) return Error("string does not end");
  const char c = text_[offset_++];
  if (c == 'u') return ReadUnicodeEscape(value);
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const size_t index = kLetters.find(c);
  if (index == kLetters.npos) return Error("unknown escape");
  value += kMeanings[index];
  return Status();
}

bool JsonScanner::ReadHex4(uint32_t& value) {
  if (text_.size() - offset_ < 4) return false;
  const char* begin = text_.data() + offset_;
  const auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
  if (error != std::errc() || end != begin + 4) return false;
  offset_ += 4;
  return true;
}

Status JsonScanner::ReadUnicodeEscape(std::string& value) {
  uint32_t unit = 0;
  if (!ReadHex4(unit)) return Error("want four hex digits");
  if (unit >= 0xD800 && unit < 0xDC00 && text_.substr(offset_, 2) == "\\u") {
    uint32_t low = 0;
    offset_ += 2;
    if (!ReadHex4(low)) return Error("want four hex digits");
    if (low < 0xDC00 || low > 0xDFFF) return Error("unpaired surrogate");
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  } else if (unit >= 0xD800 && unit < 0xE000) {
    return Error("unpaired surrogate");
  }
  AppendUtf8(value, unit);
  return Status();
}

Status JsonScanner::ReadString(std::string& value) {
  std::string_view view;
  HF_RETURN_IF_ERROR(ReadStringView(value, view));
  if (view.data() != value.data()) value.assign(view);
  return Status();
}

Status JsonScanner::ReadWord(std::string_view word) {
  if (text_.substr(offset_, word.size()) != word) {
    return Error("unknown word (want " + std::string(word) + ")");
  }
  offset_ += word.size();
  return Status();
}

Status JsonScanner::ReadBool(bool& value) {
  const char c = Peek();
  if (c != 't' && c != 'f') return WantError("a bool");
  value = c == 't';
  return ReadWord(value ? "true" : "false");
}

Status JsonScanner::ReadNull() {
  if (Peek() != 'n') return WantError("null");
  return ReadWord("null");
}

Status JsonScanner::ReadNumberToken(std::string_view& token, bool& is_integer) {
  const size_t start = offset_;
  size_t end = start + (text_[start] == '-');
  const size_t integer = end;
  end = SkipDigits(text_, end);
  const bool leading_zero = end > integer + 1 && text_[integer] == '0';
  if (end == integer || leading_zero) return Error("bad number");
  is_integer = true;
  if (end < text_.size() && text_[end] == '.') {
    is_integer = false;
    const size_t fraction = ++end;
    end = SkipDigits(text_, end);
    if (end == fraction) return Error("bad number");
  }
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    is_integer = false;
    ++end;
    if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
    const size_t exponent = end;
    end = SkipDigits(text_, end);
    if (end == exponent) return Error("bad number");
  }
  token = text_.substr(start, end - start);
  offset_ = end;
  return Status();
}

template <typename Int>
Status JsonScanner::ReadInteger(Int& value) {
  const char c = Peek();
  if (c != '-' && !IsDigit(c)) return WantError("an integer");
  std::string_view token;
  bool is_integer = false;
  HF_RETURN_IF_ERROR(ReadNumberToken(token, is_integer));
  if (!is_integer) return Error("want an integer");
  const char* end = token.data() + token.size();
  const auto parsed = std::from_chars(token.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return Error("integer out of range (got " + std::string(token) + ")");
  }
  return Status();
}

Status JsonScanner::ReadInt64(int64_t& value) { return ReadInteger(value); }
Status JsonScanner::ReadUint64(uint64_t& value) { return ReadInteger(value); }

// Reads a number. As in Python, a number too large for a double becomes
// infinity, and one too small becomes zero.
Status JsonScanner::ReadNumber(nlohmann::ordered_json& value) {
  std::string_view token;
  bool is_integer = false;
  HF_RETURN_IF_ERROR(ReadNumberToken(token, is_integer));
  const char* end = token.data() + token.size();
  int64_t integer = 0;
  uint64_t large = 0;
  if (is_integer &&
      std::from_chars(token.data(), end, integer).ec == std::errc()) {
    value = integer;
  } else if (is_integer && token[0] != '-' &&
             std::from_chars(token.data(), end, large).ec == std::errc()) {
    value = large;
  } else if (is_integer) {
    value = BigInteger(token);
  } else {
    double number = 0;
    if (std::from_chars(token.data(), end, number).ec != std::errc()) {
      number = std::strtod(std::string(token).c_str(), nullptr);
    }
    value = number;
  }
  return Status();
}

Status JsonScanner::ReadDocument(nlohmann::ordered_json& value) {
  switch (Peek()) {
    case '{': {
      value = nlohmann::ordered_json::object();
      ObjectBuilder object(value);
      return ReadObject([&](std::string_view key) {
        return ReadDocument(object.Member(key));
      });
    }
    case '[':
      value = nlohmann::ordered_json::array();
      return ReadArray([&] {
        value.push_back(nullptr);
        return ReadDocument(value.back());
      });
    case '"': {
      std::string text;
      HF_RETURN_IF_ERROR(ReadString(text));
      value = std::move(text);
      return Status();
    }
    case 't':
    case 'f': {
      bool flag = false;
      HF_RETURN_IF_ERROR(ReadBool(flag));
      value = flag;
      return Status();
    }
    case 'n':
      value = nullptr;
      return ReadNull();
    case 'N':
      value = std::numeric_limits<double>::quiet_NaN();
      return ReadWord("NaN");
    case 'I':
      value = std::numeric_limits<double>::infinity();
      return ReadWord("Infinity");
    case '-':
      if (text_.substr(offset_, 2) != "-I") return ReadNumber(value);
      value = -std::numeric_limits<double>::infinity();
      return ReadWord("-Infinity");
    default:
      return IsDigit(Peek()) ? ReadNumber(value) : WantError("a value");
  }
}

Status JsonScanner::SkipValue() {
  std::string scratch;
  std::string_view view;
  switch (Peek()) {
    case '{':
      return ReadObject([&](std::string_view) { return SkipValue(); });
    case '[':
      return ReadArray([&] { return SkipValue(); });
    case '"':
      return ReadStringView(scratch, view);
    default: {
      nlohmann::ordered_json value;
      return ReadDocument(value);
    }
  }
}

Status JsonScanner::ReadEnd() {
  return Peek() == 0 && offset_ == text_.size() ? Status()
                                                : Error("text after the end");
}

nlohmann::ordered_json BigInteger(std::string_view digits) {
  return nlohmann::ordered_json::binary({digits.begin(), digits.end()},
                                        kBigIntegerSubtype);
}

std::optional<std::string> DigitsOfBigInteger(
    const nlohmann::ordered_json& value) {
  if (!value.is_binary() || !value.get_binary().has_subtype() ||
      value.get_binary().subtype() != kBigIntegerSubtype) {
    return std::nullopt;
  }
  return std::string(value.get_binary().begin(), value.get_binary().end());
}

}  // namespace holdfast
