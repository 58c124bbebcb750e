#include "tools/history/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The verdict of a predicate on these values, and the values that it requested.
struct Judged {
  std::optional<bool> is_bad;
  std::vector<std::string> asked;
};

Judged Judge(const std::string& text,
             const std::map<std::string, double>& values) {
  const auto predicate = Predicate::Parse(text);
  EXPECT_TRUE(predicate.ok()) << predicate.status().ToString();
  Judged judged;
  const auto is_bad =
      predicate->Evaluate([&](size_t term) -> Result<std::optional<double>> {
        judged.asked.push_back(predicate->terms()[term].Name());
        const auto found = values.find(judged.asked.back());
        if (found == values.end()) return std::optional<double>();
        return std::optional(found->second);
      });
  EXPECT_TRUE(is_bad.ok());
  judged.is_bad = *is_bad;
  return judged;
}

std::string ErrorOf(const std::string& text) {
  const auto predicate = Predicate::Parse(text);
  EXPECT_EQ(predicate.status().code(), StatusCode::kInvalidArgument) << text;
  const std::string message(predicate.status().message());
  const std::string start = "predicate \"" + text + "\": column ";
  EXPECT_EQ(message.substr(0, start.size()), start);
  return message.substr(std::min(message.size(), start.size()));
}

TEST(PredicateTest, TermsAreCompared) {
  const std::map<std::string, double> values = {
      {"nan(a)", 0}, {"nan(b.*)", 2}, {"l2(a)", 50}, {"metric(loss)", -0.5}};
  EXPECT_EQ(Judge("nan(a)", values).is_bad, false);
  EXPECT_EQ(Judge("nan( b.* )", values).is_bad, true);
  EXPECT_EQ(Judge("nan(b.*) > 2", values).is_bad, false);
  EXPECT_EQ(Judge("l2(a)>50", values).is_bad, false);
  EXPECT_EQ(Judge("l2(a) >= 50", values).is_bad, true);
  EXPECT_EQ(Judge("l2(a) < 5.01e1", values).is_bad, true);
  EXPECT_EQ(Judge("l2(a) <= 49", values).is_bad, false);
  EXPECT_EQ(Judge("l2(a) == 50", values).is_bad, true);
  EXPECT_EQ(Judge("l2('a') != 50", values).is_bad, false);
  EXPECT_EQ(Judge("metric(\"loss\") > -1", values).is_bad, true);
  EXPECT_EQ(Judge("l2(a) < inf", values).is_bad, true);
}

TEST(PredicateTest, WordsBindAsInPython) {
  const std::map<std::string, double> values = {{"nan(t)", 1}, {"nan(f)", 0}};
  EXPECT_EQ(Judge("nan(t) or nan(f) and nan(f)", values).is_bad, true);
  EXPECT_EQ(Judge("(nan(t) or nan(f)) and nan(f)", values).is_bad, false);
  EXPECT_EQ(Judge("not nan(f) and nan(t)", values).is_bad, true);
  EXPECT_EQ(Judge("not (nan(f) or nan(t))", values).is_bad, false);
  EXPECT_EQ(Judge("not not nan(t)", values).is_bad, true);
  EXPECT_EQ(Judge("nan(t)and(not nan(f))", values).is_bad, true);
}

TEST(PredicateTest, WhatIsNotThereDecidesNothing) {
  const std::map<std::string, double> values = {{"nan(t)", 1}, {"nan(f)", 0}};
  EXPECT_EQ(Judge("nan(x)", values).is_bad, std::nullopt);
  EXPECT_EQ(Judge("not nan(x)", values).is_bad, std::nullopt);
  EXPECT_EQ(Judge("nan(x) or nan(t)", values).is_bad, true);
  EXPECT_EQ(Judge("nan(x) or nan(f)", values).is_bad, std::nullopt);
  EXPECT_EQ(Judge("nan(x) and nan(f)", values).is_bad, false);
  EXPECT_EQ(Judge("nan(x) and nan(t)", values).is_bad, std::nullopt);
}

TEST(PredicateTest, NoTermIsAskedThatDecidesNothing) {
  const std::map<std::string, double> values = {{"nan(t)", 1}, {"nan(f)", 0}};
  EXPECT_THAT(Judge("nan(t) or l2(a) > 1", values).asked,
              ElementsAre("nan(t)"));
  EXPECT_THAT(Judge("nan(f) and l2(a) > 1", values).asked,
              ElementsAre("nan(f)"));
  EXPECT_THAT(Judge("nan(f) or nan(t) or l2(a) > 1", values).asked,
              ElementsAre("nan(f)", "nan(t)"));
}

TEST(PredicateTest, ErrorsSayWhere) {
  EXPECT_EQ(ErrorOf(""), "1: want a function, \"not\" or \"(\"");
  EXPECT_EQ(ErrorOf("nan(a) nan(b)"), "8: want \"and\", \"or\" or the end");
  EXPECT_EQ(ErrorOf("nan(a) or"), "10: want a function, \"not\" or \"(\"");
  EXPECT_EQ(ErrorOf("nan(a) or foo(b)"),
            "11: unknown function \"foo\"; known are nan, inf, zeros, l2, max, "
            "min, mean, absmax, metric");
  EXPECT_EQ(ErrorOf("zeros(a)"),
            "1: zeros(a) is a number: compare it (>, >=, <, <=, ==, !=)");
  EXPECT_EQ(ErrorOf("l2(a) > x"), "9: want a number");
  EXPECT_EQ(ErrorOf("l2(a) > nan"), "9: want a number");
  EXPECT_EQ(ErrorOf("l2(a) > 1x"), "9: want a number");
  EXPECT_EQ(ErrorOf("l2(a) = 1"), "7: \"=\" compares nothing; want \"==\"");
  EXPECT_EQ(ErrorOf("l2 a"), "4: want \"(\" after l2");
  EXPECT_EQ(ErrorOf("l2(a"), "3: this parenthesis is not closed");
  EXPECT_EQ(ErrorOf("nan( )"), "4: nan of what?");
  EXPECT_EQ(ErrorOf("nan('a)"), "5: this quote is not closed");
  EXPECT_EQ(ErrorOf("nan('a' b)"), "9: want \")\"");
  EXPECT_EQ(ErrorOf("(nan(a)"), "1: this parenthesis is not closed");
  EXPECT_THAT(ErrorOf(std::string(1000, '(')), HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace holdfast
