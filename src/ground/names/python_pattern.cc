#include "ground/names/python_pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "ground/names/code_points.h"

namespace holdfast {
namespace {

// Deeper patterns are refused before recursion could run out of stack; PCRE2
// has the same bound.
constexpr size_t kDepthMax = 250;

bool IsHex(char32_t c) {
  return IsDecimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  explicit Translator(std::u32string pattern) : pattern_(std::move(pattern)) {}

  Result<PcrePattern> Translate() {
    HF_RETURN_IF_ERROR(Alternatives());
    if (!AtEnd()) return RegexError("unbalanced parenthesis", position_);
    return std::move(result_);
  }

 private:
  // The thing before a repetition.
  enum class Item { kNone, kRepeatable, kPosition, kRepetition };

  bool AtEnd() const { return position_ == pattern_.size(); }
  // Returns 0 at the end. A NUL in the pattern needs no distinction, because it
  // has no special meaning anywhere.
  char32_t Peek(size_t ahead = 0) const {
    const size_t at = position_ + ahead;
    return at < pattern_.size() ? pattern_[at] : 0;
  }
  bool Take(char32_t c) {
    if (AtEnd() || Peek() != c) return false;
    ++position_;
    return true;
  }
  void Emit(std::string_view text) { result_.text += text; }
  void EmitCodePoint(char32_t c) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (int shift = 20; shift >= 0; shift -= 4) {
      hex += kDigits[(c >> shift) & 15];
    }
    Emit("\\x{" + hex + "}");
  }
  // Emits a character that matches itself.
  void EmitLiteral(char32_t c) {
    const bool is_plain = IsAsciiLetter(c) || IsDecimal(c) || c >= 0x80;
    // PCRE2 gives more characters a meaning than Python does; a backslash
    // before any other character is harmless.
    if (!is_plain) Emit("\\");
    AppendUtf8(result_.text, c);
  }

  // Reads up to the end or a closing parenthesis.
  Status Alternatives() {
    Item item = Item::kNone;
    while (!AtEnd() && Peek() != ')') {
      if (Take('|')) {
        Emit("|");
        item = Item::kNone;
      } else {
        HF_RETURN_IF_ERROR(Element(item));
      }
    }
    return Status();
  }

  Status Element(Item& item) {
    const char32_t c = Peek();
    if (c == '*' || c == '+' || c == '?' || c == '{') return Repeat(item);
    if (c == '(') return Group(item);
    item = Item::kRepeatable;
    if (c == '\\') return Escape(item);
    if (c == '[') return Class();
    ++position_;
    if (c == '^' || c == '$') {
      item = Item::kPosition;
      AppendUtf8(result_.text, c);
    } else if (c == '.') {
      Emit(".");
    } else {
      EmitLiteral(c);
    }
    return Status();
  }

  // --- repetitions

  std::string TakeDigits() {
    std::string digits;
    while (!AtEnd() && IsDecimal(Peek())) {
      digits += static_cast<char>(Peek());
      ++position_;
    }
    return digits;
  }

  // Returns "{2,3}" as PCRE2 writes it, or "" if the brace is an ordinary
  // character.
  std::string Bounds() {
    const size_t start = position_++;
    const std::string low = TakeDigits();
    std::string bounds = "{" + (low.empty() ? "0" : low);
    const bool has_comma = Take(',');
    if (has_comma) bounds += "," + TakeDigits();
    if (Take('}') && (has_comma || !low.empty())) return bounds + "}";
    position_ = start + 1;
    return "";
  }

  Status Repeat(Item& item) {
    const size_t start = position_;
    std::string repeat;
    if (Peek() == '{') {
      repeat = Bounds();
      if (repeat.empty()) {
        Emit("\\{");
        item = Item::kRepeatable;
        return Status();
      }
    } else {
      AppendUtf8(repeat, Peek());
      ++position_;
    }
    if (item == Item::kNone || item == Item::kPosition) {
      return RegexError("nothing to repeat", start);
    }
    // PCRE2 would accept "a**" or give it another meaning; Python refuses it.
    if (item == Item::kRepetition) {
      return RegexError("multiple repeat", start);
    }
    Emit(repeat);
    if (Take('?')) {
      Emit("?");
    } else if (Take('+')) {
      Emit("+");
    }
    item = Item::kRepetition;
    return Status();
  }

  // --- escapes

  std::string EscapeText(size_t start) const {
    return ToUtf8(
        std::u32string_view(pattern_).substr(start, position_ - start));
  }
  Status BadEscape(size_t start) const {
    return RegexError("bad escape " + EscapeText(start), start);
  }

  // Reads what follows the backslash and the letter x, u or U.
  Status HexEscape(size_t start, size_t digit_count) {
    uint32_t value = 0;
    for (size_t i = 0; i < digit_count; ++i) {
      if (AtEnd() || !IsHex(Peek())) {
        return RegexError("incomplete escape " + EscapeText(start), start);
      }
      const char32_t c = pattern_[position_++];
      value = value * 16 + (IsDecimal(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
    if (value > 0x10FFFF || is_surrogate) return BadEscape(start);
    EmitCodePoint(value);
    return Status();
  }

  // Handles escapes that mean the same inside and outside a class; returns
  // false for others.
  Result<bool> CommonEscape(size_t start, char32_t c) {
    switch (c) {
      case 'x':
        HF_RETURN_IF_ERROR(HexEscape(start, 2));
        return true;
      case 'u':
        HF_RETURN_IF_ERROR(HexEscape(start, 4));
        return true;
      case 'U':
        HF_RETURN_IF_ERROR(HexEscape(start, 8));
        return true;
      case 'N':
        return RegexError("\\N{...} is not part of this release yet", start);
      case 'v':  // a class of its own in PCRE2
        EmitCodePoint('\v');
        return true;
      case 'a':
      case 'd':
      case 'D':
      case 'f':
      case 'n':
      case 'r':
      case 's':
      case 'S':
      case 't':
      case 'w':
      case 'W':
        Emit("\\");
        AppendUtf8(result_.text, c);
        return true;
      default:
        return false;
    }
  }

  Status Escape(Item& item) {
    const size_t start = position_++;
    if (AtEnd()) return RegexError("bad escape (end of pattern)", start);
    const char32_t c = pattern_[position_++];
    HF_ASSIGN_OR_RETURN(const bool is_done, CommonEscape(start, c));
    if (is_done) return Status();
    if (c == 'A' || c == 'b' || c == 'B' || c == 'Z') {
      item = Item::kPosition;
      Emit("\\");
      // PCRE2's \Z also matches before a newline at the end.
      AppendUtf8(result_.text, c == 'Z' ? 'z' : c);
      return Status();
    }
    if (c == '0') return Octal(start, 2);
    if (IsDecimal(c)) return BackReference(start);
    if (IsAsciiLetter(c)) return BadEscape(start);
    EmitLiteral(c);
    return Status();
  }

  // Reads up to `more_max` octal digits after the one already read.
  Status Octal(size_t start, size_t more_max) {
    uint32_t value = pattern_[position_ - 1] - '0';
    for (size_t i = 0; i < more_max && !AtEnd() && IsOctal(Peek()); ++i) {
      value = value * 8 + (pattern_[position_++] - '0');
    }
    if (value > 0377) {
      return RegexError("octal escape value " + EscapeText(start) +
                            " outside of range 0-0o377",
                        start);
    }
    EmitCodePoint(value);
    return Status();
  }

  Status BackReference(size_t start) {
    if (IsOctal(pattern_[start + 1]) && IsOctal(Peek()) && IsOctal(Peek(1))) {
      return Octal(start, 2);
    }
    // Python reads at most two digits: "\123" with three octal digits was
    // handled above as a code point.
    if (!AtEnd() && IsDecimal(Peek())) ++position_;
    size_t group = 0;
    for (size_t i = start + 1; i < position_; ++i) {
      group = group * 10 + (pattern_[i] - '0');
    }
    if (group > result_.group_count) {
      return RegexError("invalid group reference " + std::to_string(group),
                        start + 1);
    }
    return EmitReference(group, start);
  }

  Status EmitReference(size_t group, size_t start) {
    if (std::find(open_groups_.begin(), open_groups_.end(), group) !=
        open_groups_.end()) {
      return RegexError("cannot refer to an open group", start);
    }
    Emit("\\g{" + std::to_string(group) + "}");
    return Status();
  }

  // --- [...]

  Status Class() {
    const size_t start = position_++;
    Emit("[");
    if (Take('^')) Emit("^");
    for (bool is_first = true; is_first || Peek() != ']'; is_first = false) {
      if (AtEnd()) return RegexError("unterminated character set", start);
      if (Peek() == '\\') {
        HF_RETURN_IF_ERROR(ClassEscape());
      } else if (Take('-')) {
        Emit("-");
      } else {
        EmitLiteral(pattern_[position_++]);
      }
      if (AtEnd()) return RegexError("unterminated character set", start);
    }
    ++position_;
    Emit("]");
    return Status();
  }

  Status ClassEscape() {
    const size_t start = position_++;
    if (AtEnd()) return RegexError("bad escape (end of pattern)", start);
    const char32_t c = pattern_[position_++];
    HF_ASSIGN_OR_RETURN(const bool is_done, CommonEscape(start, c));
    if (is_done) return Status();
    if (c == 'b') {
      EmitCodePoint('\b');
      return Status();
    }
    if (IsOctal(c)) return Octal(start, 2);
    if (IsDecimal(c) || IsAsciiLetter(c)) return BadEscape(start);
    EmitLiteral(c);
    return Status();
  }

  // --- (...)

  Status Group(Item& item) {
    const size_t start = position_++;
    if (open_count_ >= kDepthMax) {
      return RegexError("parentheses are nested too deeply", start);
    }
    if (!Take('?')) {
      item = Item::kRepeatable;
      return Capture(start);
    }
    if (AtEnd()) return RegexError("unexpected end of pattern", position_);
    const char32_t c = pattern_[position_++];
    switch (c) {
      case '#':
        return Comment(start);
      case ':':
      case '>':
      case '=':
      case '!':
        item = Item::kRepeatable;
        return Body(start, std::string("(?") + static_cast<char>(c));
      case '<':
        item = Item::kRepeatable;
        return LookBehind(start);
      case 'P':
        item = Item::kRepeatable;
        return Named(start);
      case '(':
        item = Item::kRepeatable;
        return Conditional(start);
      default:
        --position_;
        return Flags(start, item);
    }
  }

  Status Body(size_t start, std::string_view opening) {
    Emit(opening);
    ++open_count_;
    HF_RETURN_IF_ERROR(Alternatives());
    --open_count_;
    if (!Take(')')) {
      return RegexError("missing ), unterminated subpattern", start);
    }
    Emit(")");
    return Status();
  }

  Status Capture(size_t start) {
    open_groups_.push_back(++result_.group_count);
    HF_RETURN_IF_ERROR(Body(start, "("));
    open_groups_.pop_back();
    return Status();
  }

  // Skips the comment, so that a repetition after it applies to the item before
  // it.
  Status Comment(size_t start) {
    while (!AtEnd()) {
      if (pattern_[position_++] == ')') return Status();
    }
    return RegexError("missing ), unterminated comment", start);
  }

  Status UnknownExtension(size_t start) {
    if (AtEnd()) return RegexError("unexpected end of pattern", position_);
    ++position_;
    return RegexError("unknown extension " + EscapeText(start + 1), start + 1);
  }

  Status LookBehind(size_t start) {
    if (Take('=')) return Body(start, "(?<=");
    if (Take('!')) return Body(start, "(?<!");
    return UnknownExtension(start);
  }

  // Reads up to the terminator, and skips it.
  Result<std::u32string> Name(char32_t terminator) {
    const size_t start = position_;
    const size_t end = pattern_.find(terminator, start);
    if (end == std::u32string::npos) {
      if (AtEnd()) return RegexError("missing group name", position_);
      return RegexError("missing " +
                            ToUtf8(std::u32string_view(&terminator, 1)) +
                            ", unterminated name",
                        start);
    }
    if (end == start) return RegexError("missing group name", start);
    position_ = end + 1;
    return pattern_.substr(start, end - start);
  }

  Result<std::string> IdentifierName(char32_t terminator) {
    const size_t start = position_;
    HF_ASSIGN_OR_RETURN(const std::u32string name, Name(terminator));
    std::string text = ToUtf8(name);
    if (IsIdentifier(name)) return text;
    return RegexError("bad character in group name " + PythonRepr(text), start);
  }

  Status Named(size_t start) {
    if (Take('<')) return NamedCapture(start);
    if (!Take('=')) return UnknownExtension(start);
    const size_t name_start = position_;
    HF_ASSIGN_OR_RETURN(const std::string name, IdentifierName(')'));
    const auto group = result_.group_of_name.find(name);
    if (group == result_.group_of_name.end()) {
      return RegexError("unknown group name " + PythonRepr(name), name_start);
    }
    return EmitReference(group->second, name_start);
  }

  Status NamedCapture(size_t start) {
    const size_t name_start = position_;
    HF_ASSIGN_OR_RETURN(const std::string name, IdentifierName('>'));
    const size_t group = result_.group_count + 1;
    const auto [known, is_new] = result_.group_of_name.emplace(name, group);
    if (!is_new) {
      return RegexError("redefinition of group name " + PythonRepr(name) +
                            " as group " + std::to_string(group) +
                            "; was group " + std::to_string(known->second),
                        name_start);
    }
    return Capture(start);
  }

  Status Conditional(size_t start) {
    const size_t name_start = position_;
    HF_ASSIGN_OR_RETURN(const std::u32string name, Name(')'));
    std::string group = ToUtf8(name);
    if (!std::all_of(name.begin(), name.end(), IsDecimal)) {
      if (!IsIdentifier(name)) {
        return RegexError("bad character in group name " + PythonRepr(group),
                          name_start);
      }
      const auto known = result_.group_of_name.find(group);
      if (known == result_.group_of_name.end()) {
        return RegexError("unknown group name " + PythonRepr(group),
                          name_start);
      }
      group = std::to_string(known->second);
    } else if (group.find_first_not_of('0') == std::string::npos) {
      return RegexError("bad group number", name_start);
    }
    return Body(start, "(?(" + group + ")");
  }

  // Reads (?im) at the start, and (?i:...) and (?-i:...) anywhere.
  Status Flags(size_t start, Item& item) {
    std::string flags;
    bool is_off = false;
    for (; !AtEnd(); ++position_) {
      const char32_t c = Peek();
      if (c == ':' || c == ')') break;
      if (c == '-' && !is_off) {
        is_off = true;
        flags += '-';
      } else if (c == 'i' || c == 'm' || c == 's') {
        flags += static_cast<char>(c);
      } else if (c == 'a' || c == 'x' || c == 'L') {
        return RegexError("inline flag '" + std::string(1, char(c)) +
                              "' is not part of this release yet",
                          position_);
      } else if (c != 'u' || is_off) {  // u is the default for text patterns
        return BadFlag(start, flags.empty());
      }
    }
    if (Take(')') && !is_off) {
      if (start != 0) {
        return RegexError("global flags not at the start of the expression",
                          start);
      }
      if (!flags.empty()) Emit("(?" + flags + ")");
      return Status();
    }
    if (!Take(':')) return RegexError("missing -, : or )", position_);
    item = Item::kRepeatable;
    return Body(start, "(?" + flags + ":");
  }

  Status BadFlag(size_t start, bool is_first) {
    if (is_first && position_ == start + 2) return UnknownExtension(start);
    return RegexError(
        IsAsciiLetter(Peek()) ? "unknown flag" : "missing -, : or )",
        position_);
  }

  std::u32string pattern_;
  size_t position_ = 0;
  size_t open_count_ = 0;
  std::vector<size_t> open_groups_;
  PcrePattern result_;
};

}  // namespace

Result<PcrePattern> TranslatePythonPattern(std::string_view pattern) {
  HF_ASSIGN_OR_RETURN(std::u32string code_points,
                      ToCodePoints(pattern, "regular expression"));
  return Translator(std::move(code_points)).Translate();
}

}  // namespace holdfast
