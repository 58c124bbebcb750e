#include "ground/names/expand_template.h"

#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "ground/names/code_points.h"

namespace holdfast {
namespace {

using Groups = std::vector<std::optional<std::string_view>>;
using GroupOfName = std::map<std::string, size_t>;

class Expander {
 public:
  Expander(std::u32string text, const Groups& groups,
           const GroupOfName& group_of_name)
      : text_(std::move(text)),
        groups_(groups),
        group_of_name_(group_of_name) {}

  Result<std::string> Expand() {
    while (position_ < text_.size()) {
      if (text_[position_] == '\\') {
        HF_RETURN_IF_ERROR(Escape());
      } else {
        AppendUtf8(result_, text_[position_++]);
      }
    }
    return std::move(result_);
  }

 private:
  bool NextIs(bool (*is_kind)(char32_t)) const {
    return position_ < text_.size() && is_kind(text_[position_]);
  }
  std::string Taken(size_t start) const {
    return ToUtf8(std::u32string_view(text_).substr(start, position_ - start));
  }

  Status Escape() {
    const size_t start = position_++;
    if (position_ == text_.size()) {
      return RegexError("bad escape (end of pattern)", start);
    }
    const char32_t c = text_[position_++];
    if (c == 'g') return NamedGroup();
    if (c == '0') {
      return Octal(start);
    }
    if (IsDecimal(c)) return NumberedGroup(start);
    constexpr std::string_view kLetters = "abfnrtv\\";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\";
    const size_t known =
        c < 0x80 ? kLetters.find(static_cast<char>(c)) : std::string::npos;
    if (known != std::string::npos) {
      result_ += kMeanings[known];
    } else if (IsAsciiLetter(c)) {
      return RegexError("bad escape " + Taken(start), start);
    } else {
      result_ += Taken(start);  // the backslash stays
    }
    return Status();
  }

  Status Octal(size_t start) {
    uint32_t value = text_[position_ - 1] - '0';
    for (int i = 0; i < 2 && NextIs(IsOctal); ++i) {
      value = value * 8 + (text_[position_++] - '0');
    }
    if (value > 0377) {
      return RegexError(
          "octal escape value " + Taken(start) + " outside of range 0-0o377",
          start);
    }
    AppendUtf8(result_, value);
    return Status();
  }

  Status NumberedGroup(size_t start) {
    const bool is_octal =
        start + 3 < text_.size() && IsOctal(text_[start + 1]) &&
        IsOctal(text_[start + 2]) && IsOctal(text_[start + 3]);
    if (is_octal) return Octal(start);
    size_t group = text_[start + 1] - '0';
    if (NextIs(IsDecimal)) group = group * 10 + (text_[position_++] - '0');
    return Append(group, std::to_string(group), start + 1);
  }

  Status Append(size_t group, const std::string& spelled, size_t position) {
    if (group >= groups_.size()) {
      return RegexError("invalid group reference " + spelled, position);
    }
    result_ += groups_[group].value_or("");
    return Status();
  }

  Status NamedGroup() {
    if (position_ == text_.size() || text_[position_] != '<') {
      return RegexError("missing <", position_);
    }
    const size_t start = ++position_;
    const size_t end = text_.find(U'>', start);
    if (end == start || start == text_.size()) {
      return RegexError("missing group name", start);
    }
    if (end == std::u32string::npos) {
      return RegexError("missing >, unterminated name", start);
    }
    const std::u32string_view name =
        std::u32string_view(text_).substr(start, end - start);
    position_ = end + 1;
    const std::string spelled = ToUtf8(name);
    if (IsIdentifier(name)) {
      const auto known = group_of_name_.find(spelled);
      if (known != group_of_name_.end()) {
        return Append(known->second, spelled, start);
      }
      return InvalidArgumentError("unknown group name " + PythonRepr(spelled));
    }
    size_t group = 0;
    for (const char32_t c : name) {
      if (!IsDecimal(c)) {
        return RegexError("bad character in group name " + PythonRepr(spelled),
                          start);
      }
      // Once `group` is too large for any group it stays so, and may overflow.
      if (group < groups_.size()) group = group * 10 + (c - '0');
    }
    return Append(group, spelled, start);
  }

  std::u32string text_;
  const Groups& groups_;
  const GroupOfName& group_of_name_;
  size_t position_ = 0;
  std::string result_;
};

}  // namespace

Result<std::string> ExpandTemplate(std::string_view text, const Groups& groups,
                                   const GroupOfName& group_of_name) {
  HF_ASSIGN_OR_RETURN(std::u32string code_points,
                      ToCodePoints(text, "original_key"));
  return Expander(std::move(code_points), groups, group_of_name).Expand();
}

}  // namespace holdfast
