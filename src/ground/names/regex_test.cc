#include "ground/names/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::HasSubstr;

bool Matches(std::string_view pattern, std::string_view subject) {
  const Result<Regex> regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().ToString();
  return regex->FullMatch(subject).value().has_value();
}

std::string Expanded(std::string_view pattern, std::string_view subject,
                     std::string_view replacement) {
  const Regex regex = Regex::Compile(pattern).value();
  const std::optional<RegexMatch> match = regex.FullMatch(subject).value();
  if (!match) return "no match";
  const Result<std::string> text = regex.Expand(replacement, *match);
  return text.ok() ? *text : std::string(text.status().message());
}

std::string PatternError(std::string_view pattern) {
  const Result<Regex> regex = Regex::Compile(pattern);
  if (regex.ok()) return "compiles";
  EXPECT_EQ(regex.status().code(), StatusCode::kInvalidArgument);
  std::string message(regex.status().message());
  const size_t end = message.rfind("': ");
  return end == std::string::npos ? message : message.substr(end + 3);
}

TEST(Regex, MatchesTheWholeSubjectOnly) {
  EXPECT_TRUE(Matches("a|ab", "ab"));
  EXPECT_FALSE(Matches("a", "ab"));
  EXPECT_FALSE(Matches("b", "ab"));
  EXPECT_TRUE(Matches("", ""));
}

// Every line agrees with Python's re.fullmatch (3.11).
TEST(Regex, ReadsPythonsSyntax) {
  EXPECT_TRUE(Matches(R"((?P<k>\w)(?P=k))", "aa"));
  EXPECT_TRUE(Matches(R"((.)\1)", "aa"));
  EXPECT_FALSE(Matches(R"((.)\1)", "ab"));
  EXPECT_TRUE(Matches("a{,2}", "aa"));
  EXPECT_FALSE(Matches("a{,2}", "aaa"));
  EXPECT_TRUE(Matches("a{,}", "aaa"));
  EXPECT_TRUE(Matches("a{b}", "a{b}"));
  EXPECT_TRUE(Matches("a{}", "a{}"));
  EXPECT_TRUE(Matches(R"(\v)", "\v"));
  EXPECT_FALSE(Matches(R"(\v)", "\n"));
  EXPECT_TRUE(Matches(R"(a\Z)", "a"));
  EXPECT_FALSE(Matches(R"(a\Z\n?)", "a\n"));
  EXPECT_TRUE(Matches("[[]", "["));
  EXPECT_TRUE(Matches("[[:alpha:]]", "a]"));
  EXPECT_FALSE(Matches("[[:alpha:]]", "z"));
  EXPECT_TRUE(Matches("[]a]+", "]a"));
  EXPECT_TRUE(Matches("[^]a]+", "bc"));
  EXPECT_TRUE(Matches(R"([\b])", "\b"));
  EXPECT_TRUE(
      Matches(R"(\x41\u0042\U00000043\101\0)", std::string_view("ABCA\0", 5)));
  EXPECT_TRUE(Matches("(?i:A)b", "ab"));
  EXPECT_FALSE(Matches("(?i:A)B", "ab"));
  EXPECT_TRUE(Matches("(?iu)AB", "ab"));
  EXPECT_TRUE(Matches("(?s).", "\n"));
  EXPECT_FALSE(Matches(".", "\n"));
  EXPECT_TRUE(Matches("a(?#comment)*", "aaa"));
  EXPECT_TRUE(Matches("(a)?(?(1)b|c)", "ab"));
  EXPECT_TRUE(Matches("(?P<n>a)?(?(n)b|c)", "c"));
  EXPECT_TRUE(Matches("(?<=a)b|a(?!c)b", "ab"));
  EXPECT_TRUE(Matches("(?>a+)b", "aab"));
  EXPECT_TRUE(Matches("a++b", "aab"));
  EXPECT_TRUE(Matches(R"(\w\d)", "é\u0663"));
  EXPECT_TRUE(Matches(".", "日"));
  EXPECT_TRUE(Matches(R"(\.\-\ )", ".- "));
}

TEST(Regex, RefusesWhatPythonRefuses) {
  EXPECT_EQ(PatternError("("),
            "missing ), unterminated subpattern at position 0");
  EXPECT_EQ(PatternError("a)"), "unbalanced parenthesis at position 1");
  EXPECT_EQ(PatternError("*"), "nothing to repeat at position 0");
  EXPECT_EQ(PatternError("(*ACCEPT)"), "nothing to repeat at position 1");
  EXPECT_EQ(PatternError("a|*"), "nothing to repeat at position 2");
  EXPECT_EQ(PatternError("^*"), "nothing to repeat at position 1");
  EXPECT_EQ(PatternError("a**"), "multiple repeat at position 2");
  EXPECT_EQ(PatternError("a{2}{3}"), "multiple repeat at position 4");
  EXPECT_EQ(PatternError(R"(\q)"), R"(bad escape \q at position 0)");
  EXPECT_EQ(PatternError(R"(é\Q)"), R"(bad escape \Q at position 1)");
  EXPECT_EQ(PatternError(R"([\A])"), R"(bad escape \A at position 1)");
  EXPECT_EQ(PatternError("a\\"), "bad escape (end of pattern) at position 1");
  EXPECT_EQ(PatternError(R"(\x4)"), R"(incomplete escape \x4 at position 0)");
  EXPECT_EQ(PatternError(R"(\1(a))"),
            "invalid group reference 1 at position 1");
  EXPECT_EQ(PatternError(R"((a\1))"),
            "cannot refer to an open group at position 2");
  EXPECT_EQ(
      PatternError(R"(\777)"),
      R"(octal escape value \777 outside of range 0-0o377 at position 0)");
  EXPECT_EQ(PatternError("[a"), "unterminated character set at position 0");
  EXPECT_EQ(PatternError("(?<n>a)"), "unknown extension ?<n at position 1");
  EXPECT_EQ(PatternError("(?P>n)"), "unknown extension ?P> at position 1");
  EXPECT_EQ(PatternError("(?R)"), "unknown extension ?R at position 1");
  EXPECT_EQ(PatternError("(?iz)"), "unknown flag at position 3");
  EXPECT_EQ(PatternError("a(?i)"),
            "global flags not at the start of the expression at position 1");
  EXPECT_EQ(PatternError("(?P<n>a)(?P<n>b)"),
            "redefinition of group name 'n' as group 2; was group 1 at "
            "position 12");
  EXPECT_EQ(PatternError("(?P=n)"), "unknown group name 'n' at position 4");
  EXPECT_EQ(PatternError("(?P<1>a)"),
            "bad character in group name '1' at position 4");
  EXPECT_EQ(PatternError("(?P<>a)"), "missing group name at position 4");
  EXPECT_EQ(PatternError("(?#"),
            "missing ), unterminated comment at position 0");
}

TEST(Regex, RefusesByNameWhatComesLater) {
  EXPECT_THAT(PatternError("(?x) a"),
              HasSubstr("not part of this release yet"));
  EXPECT_THAT(PatternError(R"(\N{DIGIT ONE})"),
              HasSubstr("not part of this release yet"));
}

TEST(Regex, NamesThePatternInErrors) {
  EXPECT_EQ(Regex::Compile("(a").status().message(),
            "regular expression '(a': missing ), unterminated subpattern at "
            "position 0");
  EXPECT_EQ(Regex::Compile("\xff").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Regex, RefusesDeepAndLongPatterns) {
  EXPECT_EQ(Regex::Compile(std::string(100'000, '(')).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(PatternError(std::string(300, '(') + std::string(300, ')')),
              HasSubstr("nested too deeply"));
}

TEST(Regex, AMatchIsBounded) {
  const Regex regex = Regex::Compile("(a+)+b").value();
  const auto match = regex.FullMatch(std::string(40, 'a') + "cb");
  ASSERT_FALSE(match.ok());
  EXPECT_EQ(match.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(match.status().message(), HasSubstr("(a+)+b"));
}

TEST(Regex, ExpandsReferences) {
  EXPECT_EQ(Expanded("(a)(b)?", "a", R"(<\1|\2|\g<2>|\g<0>>)"), "<a|||a>");
  EXPECT_EQ(Expanded("(?P<n>.)(.)", "xy", R"(\g<n>\g<02>\2)"), "xyy");
  EXPECT_EQ(Expanded("(.)", "x", R"(\1a\n\\\.\é\141\0)"),
            std::string("xa\n\\\\.\\éa\0", 11));
}

TEST(Regex, RefusesBadReferences) {
  EXPECT_EQ(Expanded("a", "a", R"(\1)"),
            "invalid group reference 1 at position 1");
  EXPECT_EQ(Expanded("a", "a", R"(b\g<9>)"),
            "invalid group reference 9 at position 4");
  EXPECT_EQ(Expanded("a", "a", R"(\g<none>)"), "unknown group name 'none'");
  EXPECT_EQ(Expanded("a", "a", R"(\g1)"), "missing < at position 2");
  EXPECT_EQ(Expanded("a", "a", R"(\g<)"), "missing group name at position 3");
  EXPECT_EQ(Expanded("a", "a", R"(\g<>)"), "missing group name at position 3");
  EXPECT_EQ(Expanded("a", "a", R"(\g<1)"),
            "missing >, unterminated name at position 3");
  EXPECT_EQ(Expanded("a", "a", R"(\g<1a>)"),
            "bad character in group name '1a' at position 3");
  EXPECT_EQ(Expanded("a", "a", R"(\q)"), R"(bad escape \q at position 0)");
  EXPECT_EQ(Expanded("a", "a", "a\\"),
            "bad escape (end of pattern) at position 1");
  EXPECT_EQ(Expanded("a", "a", R"(\g<99999999999999999999>)"),
            "invalid group reference 99999999999999999999 at position 3");
}

}  // namespace
}  // namespace holdfast
