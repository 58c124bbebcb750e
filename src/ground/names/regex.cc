#define PCRE2_CODE_UNIT_WIDTH 8

#include "ground/names/regex.h"

#include <pcre2.h>

#include <utility>

#include "ground/base/status_macros.h"
#include "ground/names/code_points.h"
#include "ground/names/expand_template.h"
#include "ground/names/python_pattern.h"

namespace holdfast {
namespace {

// These limits are far above what the keys of trees need. With PCRE2's own
// limits a match could run for minutes.
constexpr uint32_t kMatchSteps = 1'000'000;
constexpr uint32_t kMatchHeapKib = 16 << 10;
constexpr size_t kPatternBytesMax = 64 << 10;

struct CompileContextDeleter {
  void operator()(pcre2_compile_context* context) const {
    pcre2_compile_context_free(context);
  }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const {
    pcre2_match_context_free(context);
  }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string PcreMessage(int code) {
  PCRE2_UCHAR text[256];
  const int length = pcre2_get_error_message(code, text, sizeof text);
  if (length < 0) return "PCRE2 error " + std::to_string(code);
  return std::string(reinterpret_cast<const char*>(text), length);
}

PCRE2_SPTR AsUnits(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

Status NoMemory() {
  return ResourceExhaustedError("regular expression: out of memory");
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
};

Regex::Regex(std::string pattern, std::map<std::string, size_t> group_of_name,
             size_t group_count, std::shared_ptr<const Code> code)
    : pattern_(std::move(pattern)),
      group_of_name_(std::move(group_of_name)),
      group_count_(group_count),
      code_(std::move(code)) {}

Result<Regex> Regex::Compile(std::string_view pattern) {
  const std::string where = "regular expression " + PythonRepr(pattern);
  if (pattern.size() > kPatternBytesMax) {
    return InvalidArgumentError("regular expression is too long (got " +
                                std::to_string(pattern.size()) +
                                " bytes, want " +
                                std::to_string(kPatternBytesMax) + " at most)");
  }
  Result<PcrePattern> translated = TranslatePythonPattern(pattern);
  if (!translated.ok()) return translated.status().WithContext(where);
  std::unique_ptr<pcre2_compile_context, CompileContextDeleter> context(
      pcre2_compile_context_create(nullptr));
  if (context == nullptr) return NoMemory();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code =
      pcre2_compile(AsUnits(translated->text), translated->text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_ENDANCHORED |
                        PCRE2_NEVER_BACKSLASH_C,
                    &error, &offset, context.get());
  if (code == nullptr) {
    return InvalidArgumentError(where + ": " + PcreMessage(error));
  }
  return Regex(std::string(pattern), std::move(translated->group_of_name),
               translated->group_count, std::make_shared<const Code>(code));
}

Result<std::optional<RegexMatch>> Regex::FullMatch(
    std::string_view subject) const {
  const std::unique_ptr<pcre2_match_context, MatchContextDeleter> context(
      pcre2_match_context_create(nullptr));
  const std::unique_ptr<pcre2_match_data, MatchDataDeleter> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr));
  if (context == nullptr || data == nullptr) return NoMemory();
  pcre2_set_match_limit(context.get(), kMatchSteps);
  pcre2_set_heap_limit(context.get(), kMatchHeapKib);
  const int count = pcre2_match(code_->code, AsUnits(subject), subject.size(),
                                0, 0, data.get(), context.get());
  if (count == PCRE2_ERROR_NOMATCH) return std::optional<RegexMatch>();
  if (count == PCRE2_ERROR_MATCHLIMIT || count == PCRE2_ERROR_HEAPLIMIT ||
      count == PCRE2_ERROR_DEPTHLIMIT || count == PCRE2_ERROR_NOMEMORY) {
    return ResourceExhaustedError("regular expression " + PythonRepr(pattern_) +
                                  ": " + PcreMessage(count) + " on " +
                                  PythonRepr(subject));
  }
  if (count < 0) {
    return InvalidArgumentError("regular expression " + PythonRepr(pattern_) +
                                ": " + PcreMessage(count) + " on " +
                                PythonRepr(subject));
  }
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(data.get());
  RegexMatch match(group_count_ + 1);
  // `count` does not include groups after the last one that participated.
  for (size_t i = 0; i < static_cast<size_t>(count) && i < match.size(); ++i) {
    if (bounds[2 * i] == PCRE2_UNSET) continue;
    match[i] = subject.substr(bounds[2 * i], bounds[2 * i + 1] - bounds[2 * i]);
  }
  return std::optional<RegexMatch>(std::move(match));
}

Result<std::string> Regex::Expand(std::string_view replacement,
                                  const RegexMatch& match) const {
  return ExpandTemplate(replacement, match, group_of_name_);
}

}  // namespace holdfast
