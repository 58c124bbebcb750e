#include "formats/pickle/pickle_reader.h"

#include <bit>
#include <optional>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast::pickle {
namespace {

// Parses `count` hex digits at `position`.
std::optional<uint32_t> HexAt(std::string_view text, size_t position,
                              size_t count) {
  if (text.size() - position < count) return std::nullopt;
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    const int digit = HexDigit(text[position + i]);
    if (digit < 0) return std::nullopt;
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  return value;
}

constexpr std::string_view kEscapes = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";

// Returns the byte for a backslash followed by `name`.
std::optional<char> SimpleEscape(char name) {
  for (size_t i = 0; i < kEscapes.size(); i += 2) {
    if (kEscapes[i] == name) return kEscapes[i + 1];
  }
  return std::nullopt;
}

// Reads one escape; `position` is after its backslash.
bool Unescape(std::string_view text, size_t& position, std::string& out) {
  if (position >= text.size()) return false;
  const char name = text[position++];
  if (const auto simple = SimpleEscape(name)) {
    out += *simple;
    return true;
  }
  if (name == 'x') {
    const auto value = HexAt(text, position, 2);
    if (!value) return false;
    position += 2;
    out += static_cast<char>(*value);
    return true;
  }
  if (name >= '0' && name <= '7') {
    uint32_t value = name - '0';
    for (int i = 0; i < 2 && position < text.size() && text[position] >= '0' &&
                    text[position] <= '7';
         ++i) {
      value = value * 8 + (text[position++] - '0');
    }
    out += static_cast<char>(value);
    return true;
  }
  out += '\\';
  out += name;
  return true;
}

}  // namespace

void AppendPythonChar(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

uint32_t NextPythonChar(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) {
    return position + i < text.size()
               ? static_cast<unsigned char>(text[position + i])
               : 0u;
  };
  const uint32_t lead = byte(0);
  const size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint32_t c = size == 1 ? lead : lead & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) c = c << 6 | (byte(i) & 0x3f);
  position += size;
  return c;
}

bool IsPythonText(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i < size) return false;
    for (size_t k = 1; k < size; ++k) {
      if ((text[i + k] & 0xc0) != 0x80) return false;
    }
    const uint32_t c = NextPythonChar(text, i);
    if ((size == 3 && c < 0x800) ||
        (size == 4 && (c < 0x10000 || c > 0x10ffff))) {
      return false;
    }
  }
  return true;
}

Status PickleReader::Error(const std::string& what) const {
  return DataLossError("pickle: offset " + std::to_string(opcode_offset_) +
                       ": " + what);
}

Status PickleReader::Cut(const std::string& what) {
  is_cut_ = true;
  return Error(what);
}

Result<uint8_t> PickleReader::Opcode() {
  opcode_offset_ = offset_;
  if (offset_ == bytes_.size()) {
    return Cut("it ends without a STOP");
  }
  return static_cast<uint8_t>(bytes_[offset_++]);
}

Result<uint64_t> PickleReader::Unsigned(size_t width) {
  if (bytes_.size() - offset_ < width) {
    return Cut("it is cut inside an opcode");
  }
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |=
        static_cast<uint64_t>(static_cast<unsigned char>(bytes_[offset_ + i]))
        << (8 * i);
  }
  offset_ += width;
  return value;
}

Result<int64_t> PickleReader::Int32() {
  HF_ASSIGN_OR_RETURN(const uint64_t bits, Unsigned(4));
  return static_cast<int32_t>(static_cast<uint32_t>(bits));
}

Result<double> PickleReader::BigEndianDouble() {
  HF_ASSIGN_OR_RETURN(const uint64_t bits, Unsigned(8));
  return std::bit_cast<double>(__builtin_bswap64(bits));
}

Result<std::string_view> PickleReader::Counted(size_t width, bool is_signed) {
  HF_ASSIGN_OR_RETURN(const uint64_t count, Unsigned(width));
  if (is_signed && width == 4 && (count & 0x80000000) != 0) {
    return Error("a length is negative: " +
                 std::to_string(static_cast<int32_t>(count)));
  }
  if (count > bytes_.size() - offset_) {
    return Cut("a text says it has " + std::to_string(count) + " bytes, and " +
               std::to_string(bytes_.size() - offset_) + " are left");
  }
  const std::string_view text = bytes_.substr(offset_, count);
  offset_ += count;
  return text;
}

Result<std::string_view> PickleReader::Line() {
  const size_t end = bytes_.find('\n', offset_);
  if (end == std::string_view::npos) {
    return Cut("a line has no end");
  }
  std::string_view line = bytes_.substr(offset_, end - offset_);
  offset_ = end + 1;
  return line;
}

Result<std::string_view> PickleReader::QuotedLine() {
  HF_ASSIGN_OR_RETURN(std::string_view line, Line());
  while (line.ends_with(' ') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() < 2 || line.front() != line.back() ||
      (line.front() != '\'' && line.front() != '"')) {
    return Error("a string is not in quotes");
  }
  line = line.substr(1, line.size() - 2);
  if (line.find('\\') == std::string_view::npos) return line;
  std::string text;
  for (size_t i = 0; i < line.size();) {
    if (line[i] != '\\') {
      text += line[i++];
      continue;
    }
    if (!Unescape(line, ++i, text)) {
      return Error("a string has a broken escape");
    }
  }
  return Keep(std::move(text));
}

Result<std::string_view> PickleReader::UnicodeLine() {
  HF_ASSIGN_OR_RETURN(const std::string_view line, Line());
  std::string text;
  for (size_t i = 0; i < line.size();) {
    const bool is_escape = line[i] == '\\' && i + 1 < line.size() &&
                           (line[i + 1] == 'u' || line[i + 1] == 'U');
    if (!is_escape) {
      AppendPythonChar(text, static_cast<unsigned char>(line[i++]));
      continue;
    }
    const size_t digits = line[i + 1] == 'u' ? 4 : 8;
    const auto value = HexAt(line, i + 2, digits);
    if (!value || *value > 0x10ffff) {
      return Error("a text has a broken escape");
    }
    AppendPythonChar(text, *value);
    i += 2 + digits;
  }
  return Keep(std::move(text));
}

}  // namespace holdfast::pickle
