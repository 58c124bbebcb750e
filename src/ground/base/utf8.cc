#include "ground/base/utf8.h"

#include <cstdint>

namespace holdfast {
namespace {

// Returns the number of bytes in the sequence that `lead` starts, or 0 if no
// sequence starts with it.
size_t SequenceBytes(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// Returns true for overlong forms and surrogates, which encoders never write.
bool IsMisplaced(char32_t code_point, size_t byte_count) {
  if (byte_count == 3) {
    return code_point < 0x800 || (code_point >= 0xD800 && code_point < 0xE000);
  }
  return byte_count == 4 && (code_point < 0x10000 || code_point > 0x10FFFF);
}

}  // namespace

char32_t DecodeUtf8(std::string_view text, size_t& position) {
  const size_t start = position++;
  const uint8_t lead = static_cast<uint8_t>(text[start]);
  const size_t byte_count = SequenceBytes(lead);
  if (byte_count == 1) return lead;
  if (byte_count == 0 || text.size() - start < byte_count) return kBadCodePoint;
  char32_t code_point = lead & (0xFF >> (byte_count + 1));
  for (size_t i = 1; i < byte_count; ++i) {
    const uint8_t next = static_cast<uint8_t>(text[start + i]);
    if ((next & 0xC0) != 0x80) return kBadCodePoint;
    code_point = code_point << 6 | (next & 0x3F);
  }
  if (IsMisplaced(code_point, byte_count)) return kBadCodePoint;
  position = start + byte_count;
  return code_point;
}

void AppendUtf8(std::string& out, char32_t code_point) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      out += static_cast<char>(0xE0 | code_point >> 12);
    } else {
      out += static_cast<char>(0xF0 | code_point >> 18);
      out += static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (code_point & 0x3F));
}

bool IsValidUtf8(std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    if (DecodeUtf8(text, position) == kBadCodePoint) return false;
  }
  return true;
}

}  // namespace holdfast
