#include "cli/top/cells.h"

#include <cstdio>
#include <cwchar>
#include <vector>

#include "cli/units.h"

namespace holdfast::cli::top {
namespace {

struct Glyph {
  std::string_view text;
  size_t width;
};

// Decodes one sequence. REQUIRES: it is well-formed UTF-8.
char32_t CodePoint(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first;
  char32_t code = first & (0x7fu >> sequence.size());
  for (const char byte : sequence.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3fu);
  }
  return code;
}

// Returns the width in columns, or 0 for a sequence that must not be drawn.
size_t WidthOf(std::string_view sequence) {
  const char32_t code = CodePoint(sequence);
  if (code < 0x7f) return 1;
  const int width = wcwidth(static_cast<wchar_t>(code));
  return width > 0 ? static_cast<size_t>(width) : 0;
}

std::vector<Glyph> GlyphsOf(std::string_view safe) {
  std::vector<Glyph> glyphs;
  while (!safe.empty()) {
    const std::string_view sequence = safe.substr(0, Utf8SequenceBytes(safe));
    glyphs.push_back({sequence, WidthOf(sequence)});
    safe.remove_prefix(sequence.size());
  }
  return glyphs;
}

// Returns the beginning and the end with an ellipsis between them. May be one
// column too short.
std::string WithoutMiddle(const std::vector<Glyph>& glyphs, size_t columns,
                          bool utf8) {
  if (columns == 0) return "";
  const size_t kept = columns - 1;
  const size_t head = kept / 2;
  std::string begin, end;
  size_t used = 0;
  for (size_t i = 0; used + glyphs[i].width <= head; ++i) {
    used += glyphs[i].width;
    begin += glyphs[i].text;
  }
  for (size_t i = glyphs.size(); used + glyphs[i - 1].width <= kept; --i) {
    used += glyphs[i - 1].width;
    end.insert(0, glyphs[i - 1].text);
  }
  return begin + (utf8 ? "\u2026" : "~") + end;
}

}  // namespace

std::string SafeText(std::string_view text, bool utf8) {
  const std::string printable = PrintableText(text);
  std::string safe;
  for (std::string_view rest = printable; !rest.empty();) {
    const std::string_view sequence = rest.substr(0, Utf8SequenceBytes(rest));
    rest.remove_prefix(sequence.size());
    const bool is_ascii = sequence.size() == 1;
    if (is_ascii || (utf8 && WidthOf(sequence) > 0)) {
      safe += sequence;
      continue;
    }
    char escaped[16];
    std::snprintf(escaped, sizeof escaped, "\\u{%x}",
                  static_cast<unsigned>(CodePoint(sequence)));
    safe += escaped;
  }
  return safe;
}

size_t CellCount(std::string_view safe) {
  size_t count = 0;
  for (const Glyph& glyph : GlyphsOf(safe)) count += glyph.width;
  return count;
}

std::string Fitted(std::string_view safe, size_t columns, bool utf8,
                   Align align) {
  std::string text(safe);
  if (CellCount(safe) > columns) {
    text = WithoutMiddle(GlyphsOf(safe), columns, utf8);
  }
  const std::string padding(columns - CellCount(text), ' ');
  return align == Align::kLeft ? text + padding : padding + text;
}

std::string Beginning(std::string_view safe, size_t columns) {
  std::string text;
  size_t used = 0;
  for (const Glyph& glyph : GlyphsOf(safe)) {
    if (used + glyph.width > columns) break;
    used += glyph.width;
    text += glyph.text;
  }
  return text + std::string(columns - used, ' ');
}

}  // namespace holdfast::cli::top
