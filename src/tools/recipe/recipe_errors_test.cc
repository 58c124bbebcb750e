// Checks every error message of a recipe, by itself and with a source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/recipe/recipe_checkpoint.h"
#include "tools/recipe/recipe_test_util.h"
#include "tools/recipe/rules.h"

namespace holdfast {
namespace {

// Returns the error message for a document that is not a recipe.
std::string ParseError(const std::string& text) {
  const auto recipe = Recipe::Parse(text);
  if (recipe.ok()) return "it is one";
  EXPECT_EQ(recipe.status().code(), StatusCode::kInvalidArgument);
  return std::string(recipe.status().message());
}

// Returns the error message for a document with these rules.
std::string RulesError(const std::string& rules) {
  return ParseError(R"({"recipe": 1, "rules": [)" + rules + "]}");
}

TEST(RecipeErrors, OfTheDocument) {
  EXPECT_EQ(ParseError("{"), "recipe: not a JSON document");
  EXPECT_EQ(ParseError("[]"), "recipe: not a JSON object");
  EXPECT_EQ(ParseError(R"({"recipe": 1, "rules": [], "rules": []})"),
            "recipe: \"rules\" is there twice");
  EXPECT_EQ(ParseError("{}"),
            "recipe: \"recipe\", the version of its language (got null, want "
            "1)");
  EXPECT_EQ(ParseError(R"({"recipe": 1})"), "recipe: it has no list \"rules\"");
  EXPECT_EQ(ParseError(R"({"recipe": 1, "rules": [], "rule": []})"),
            "recipe: \"rule\" is not a member (want recipe, about, sizes, "
            "rules, rest)");
  EXPECT_EQ(ParseError(R"({"recipe": 1, "rules": [], "rest": "all"})"),
            "recipe: \"rest\" (got \"all\", want \"keep\" or \"drop\")");
  EXPECT_EQ(ParseError(R"({"recipe": 1, "rules": [], "about": 1})"),
            "recipe: \"about\" is a number, want a string");
  EXPECT_EQ(ParseError(R"({"recipe": 1, "rules": [], "sizes": []})"),
            "recipe: \"sizes\" is an array, want an object");
  EXPECT_EQ(ParseError(R"({"recipe": 1, "rules": [], "sizes": {"h": 0}})"),
            "recipe: \"sizes\": \"h\" has 0, want a whole number above 0");
  EXPECT_EQ(ParseError(std::string((1 << 20) + 1, ' ')),
            "recipe: a text of 1048577 bytes (want at most 1048576)");
}

TEST(RecipeErrors, OfOneRule) {
  EXPECT_EQ(RulesError("1"), "recipe: rule 1: it is a number, want an object");
  EXPECT_EQ(RulesError(R"({"to": "b"})"),
            "recipe: rule 1: want one of \"from\", \"match\" and \"drop\" (got "
            "0 of them)");
  EXPECT_EQ(RulesError(R"({"drop": "a"}, {"from": "a"})"),
            "recipe: rule 2 (a): it has no \"to\"");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": []})"),
            "recipe: rule 1 (a): \"to\" is empty");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b", "axis": ""})"),
            "recipe: rule 1 (a): \"axis\" is not a member (want from, to, "
            "axes, cast, names, else, optional, dequantize)");
  EXPECT_EQ(RulesError(R"({"drop": "a", "to": "b"})"),
            "recipe: rule 1 (a): \"to\" is not a member (want drop, "
            "optional)");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b", "optional": 1})"),
            "recipe: rule 1 (a): \"optional\" is a number, want true or false");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b", "cast": "half"})"),
            "recipe: rule 1 (a): \"half\" is not a dtype");
  EXPECT_EQ(RulesError(R"({"match": "(", "to": "b"})"),
            "recipe: rule 1 ((): regular expression '(': missing ), "
            "unterminated subpattern at position 0");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b", "dequantize": 1})"),
            "recipe: rule 1 (a): \"dequantize\" is not an object with a "
            "\"scale\"");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b",
                           "dequantize": {"scale": "s", "block": [0]}})"),
            "recipe: rule 1 (a): \"block\" has 0, want a whole number above 0");
}

TEST(RecipeErrors, OfNames) {
  EXPECT_EQ(RulesError(R"({"drop": ")" + std::string(4097, 'a') + "\"}"),
            "recipe: rule 1: \"drop\" has 4097 bytes (want at most 4096)");
  EXPECT_EQ(RulesError(R"({"from": "a.{", "to": "b"})"),
            "recipe: rule 1 (a.{): \"a.{\": a { is not closed");
  EXPECT_EQ(RulesError(R"({"from": "a.{0}", "to": "b"})"),
            "recipe: rule 1 (a.{0}): \"a.{0}\": {0} is not a placeholder's "
            "name");
  EXPECT_EQ(RulesError(R"({"from": "{n}.{n}", "to": "b"})"),
            "recipe: rule 1 ({n}.{n}): \"{n}.{n}\": {n} stands there twice");
  EXPECT_EQ(RulesError(R"({"from": "{n}{m}", "to": "b"})"),
            "recipe: rule 1 ({n}{m}): \"{n}{m}\": two placeholders touch");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b..c"})"),
            "recipe: rule 1 (a): \"b..c\": an empty key");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": ""})"),
            "recipe: rule 1 (a): \"\": an empty key");
  EXPECT_EQ(RulesError(R"({"from": "a.{n}", "to": ["b.{n}", "c.{m}"]})"),
            "recipe: rule 1 (a.{n}): a name of \"to\" (got the placeholders "
            "{m}, want {n})");
  EXPECT_EQ(RulesError(R"({"from": "a.{n}", "to": "b.{n}", "else": "c"})"),
            "recipe: rule 1 (a.{n}): \"else\" (got the placeholders {}, want "
            "{n})");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b", "names": {"n": ["q"]}})"),
            "recipe: rule 1 (a): \"names\" has {n}, which is not a "
            "placeholder");
  EXPECT_EQ(RulesError(R"({"from": "a.{n}", "to": "b.{n}",
                           "names": {"n": ["q", "q"]}})"),
            "recipe: rule 1 (a.{n}): \"names\" of {n}: \"q\" is there twice, "
            "or has a {");
}

TEST(RecipeErrors, OfAxes) {
  const auto error = [](const std::string& axes) {
    return RulesError(R"({"from": "a", "to": "b", "axes": ")" + axes + "\"}");
  };
  EXPECT_EQ(error("a b"),
            "recipe: rule 1 (a): \"a b\": no \"->\" between two sides");
  EXPECT_EQ(error("a a -> a"),
            "recipe: rule 1 (a): \"a a \": axis a stands there twice");
  EXPECT_EQ(error("(a -> a"), "recipe: rule 1 (a): \"(a \": a ( is not closed");
  EXPECT_EQ(error("((a)) -> a"),
            "recipe: rule 1 (a): \"((a)) \": a ( inside another");
  EXPECT_EQ(error("a) -> a"),
            "recipe: rule 1 (a): \"a) \": a ) that closes nothing");
  EXPECT_EQ(error("(... a) -> a ..."),
            "recipe: rule 1 (a): \"(... a) \": ... inside a group");
  EXPECT_EQ(error("a-b -> a"),
            "recipe: rule 1 (a): \"a-b \": \"a-b\" is not an axis's name");
  EXPECT_EQ(error("a b -> a"),
            "recipe: rule 1 (a): axis b is only on the left (want every name "
            "once on either side)");
  EXPECT_EQ(error("a -> a ..."),
            "recipe: rule 1 (a): axis ... is only on the right (want every "
            "name once on either side)");
  EXPECT_EQ(RulesError(R"({"from": "a.{n}", "to": "b"})"),
            "recipe: rule 1 (a.{n}): {n} is only in \"from\" (want \"axes\" "
            "that say where its axis is)");
  EXPECT_EQ(RulesError(R"({"from": "a", "to": "b.{n}"})"),
            "recipe: rule 1 (a): {n} is only in \"to\" (want \"axes\" that "
            "say where its axis is)");
  EXPECT_EQ(RulesError(R"({"from": "a.{n}", "to": "b.{n}",
                           "axes": "n x -> n x"})"),
            "recipe: rule 1 (a.{n}): {n} is in \"from\", so that it is not an "
            "axis on that side of \"axes\"");
}

TEST(RecipeErrors, Backwards) {
  const auto error = [](const std::string& rule) {
    const auto recipe =
        Recipe::Parse(R"({"recipe": 1, "rules": [)" + rule + "]}");
    EXPECT_TRUE(recipe.ok()) << recipe.status().ToString();
    return std::string(recipe->Reversed().status().message());
  };
  EXPECT_EQ(error(R"({"match": "a.*", "to": "b"})"),
            "recipe: rule 1 (a.*): a rule with \"match\" cannot run backwards");
  EXPECT_EQ(error(R"({"from": "a", "to": "b", "dequantize": {"scale": "s"}})"),
            "recipe: rule 1 (a): a rule with \"dequantize\" cannot run "
            "backwards");
}

// ----- with a source --------------------------------------------------------

// Returns the error message for these rules and a source of int32 arrays with
// these shapes.
std::string SourceError(
    const std::string& rules,
    const std::vector<std::pair<std::string, Shape>>& shapes,
    const RecipeOptions& options = {}, const std::string& more = "") {
  const auto recipe =
      Recipe::Parse(R"({"recipe": 1, "rules": [{"drop": "note"}, )" + rules +
                    R"(], "sizes": {"heads": "heads"})" + more + "}");
  EXPECT_TRUE(recipe.ok()) << recipe.status().ToString();
  std::vector<NamedArray> arrays;
  for (const auto& [name, shape] : shapes) {
    arrays.push_back({name, CountingArray(shape)});
  }
  const auto seen = WithRecipe(std::make_unique<ScatteredSource>(arrays, 0),
                               *recipe, options);
  if (seen.ok()) return "it fits";
  EXPECT_EQ(seen.status().code(), StatusCode::kInvalidArgument);
  return std::string(seen.status().message());
}

TEST(RecipeErrors, EveryLeafIsTakenOnce) {
  const std::string a_to_b = R"({"from": "a", "to": "b"})";
  EXPECT_EQ(SourceError(a_to_b, {{"a", {2}}}), "it fits");
  EXPECT_EQ(SourceError(a_to_b, {{"a", {2}}, {"x", {2}}, {"y", {2}}}),
            "recipe: no rule takes leaf \"x\", nor 1 more (want a rule for it, "
            "a \"drop\", or \"rest\": \"keep\")");
  EXPECT_EQ(SourceError(a_to_b, {}),
            "recipe: rule 2 (a): it takes no leaf (want \"optional\": true "
            "where that may be)");
  EXPECT_EQ(SourceError(a_to_b + R"(, {"drop": "x*"})", {{"a", {2}}}),
            "it fits");
  EXPECT_EQ(
      SourceError(a_to_b + R"(, {"match": "x.*", "to": "c"})", {{"a", {2}}}),
      "recipe: rule 3 (x.*): it takes no leaf (want \"optional\": true "
      "where that may be)");
  EXPECT_EQ(SourceError(a_to_b + R"(, {"drop": "x", "optional": true},
                           {"match": "x", "to": "c", "optional": true},
                           {"from": "x", "to": "c", "optional": true})",
                        {{"a", {2}}}),
            "it fits");
  for (const char* const second :
       {R"({"from": "a", "to": "c"})", R"({"match": "a", "to": "c"})",
        R"({"drop": "a"})"}) {
    EXPECT_THAT(SourceError(a_to_b + ", " + second, {{"a", {2}}}),
                "recipe: rule 3 (a): leaf \"a\" is taken by rule 2, too");
  }
}

TEST(RecipeErrors, NumbersHaveNoGaps) {
  const std::string stack =
      R"({"from": "{l}.{e}.w", "to": "w.{l}", "axes": "x -> e x"})";
  EXPECT_EQ(
      SourceError(
          stack,
          {{"0.0.w", {2}}, {"0.1.w", {2}}, {"1.0.w", {2}}, {"1.1.w", {2}}}),
      "it fits");
  EXPECT_EQ(
      SourceError(stack, {{"0.0.w", {2}}, {"0.1.w", {2}}, {"1.1.w", {2}}}),
      "recipe: rule 2 ({l}.{e}.w): leaf \"1.0.w\" is missing (want every "
      "combination of {l}, {e}, from 0)");
  EXPECT_EQ(
      SourceError(stack, {{"0.0.w", {2}}, {"0.1.w", {2}}, {"1.0.w", {2}}}),
      "recipe: rule 2 ({l}.{e}.w): leaf \"1.1.w\" is missing (want every "
      "combination of {l}, {e}, from 0)");
  EXPECT_EQ(SourceError(stack, {{"0.9223372036854775807.w", {2}}}),
            "recipe: rule 2 ({l}.{e}.w): leaf \"0.0.w\" is missing (want every "
            "combination of {l}, {e}, from 0)");
  // A number with a leading zero does not match, and neither does a number that
  // is too large.
  EXPECT_EQ(
      SourceError(stack, {{"0.00.w", {2}}, {"0.9223372036854775808.w", {2}}}),
      "recipe: rule 2 ({l}.{e}.w): it takes no leaf (want \"optional\": "
      "true where that may be)");
  EXPECT_EQ(SourceError(R"({"from": "w.{p}", "to": "t", "axes": "x -> p x",
                            "names": {"p": ["q", "k"]}})",
                        {{"w.q", {2}}}),
            "recipe: rule 2 (w.{p}): leaf \"w.k\" is missing (want every "
            "combination of {p}, from 0)");
}

TEST(RecipeErrors, ArraysAgree) {
  const std::string stack =
      R"({"from": "w.{l}", "to": "t", "axes": "x -> l x"})";
  EXPECT_EQ(SourceError(stack, {{"w.0", {2}}, {"w.1", {3}}}),
            "recipe: rule 2 (w.{l}): leaf \"w.1\" (got int32(3,), want "
            "int32(2,) as leaf \"w.0\")");
  const auto recipe = Recipe::Parse(
      R"({"recipe": 1, "rest": "drop", "rules": [)" + stack + "]}");
  ASSERT_TRUE(recipe.ok());
  const float floats[] = {1, 2};
  const std::vector<NamedArray> arrays = {
      {"w.0", CountingArray({2})},
      {"w.1", Array::FromBytes(DType::kFloat32, {2}, floats)}};
  const auto seen =
      WithRecipe(std::make_unique<ScatteredSource>(arrays, 0), *recipe, {});
  EXPECT_EQ(seen.status().message(),
            "recipe: rule 1 (w.{l}): leaf \"w.1\" (got float32(2,), want "
            "int32(2,) as leaf \"w.0\")");
  for (const char* const change : {R"("axes": "x -> x")", R"("cast": "int8")",
                                   R"("dequantize": {"scale": "s"})"}) {
    const auto of_text = Recipe::Parse(
        R"({"recipe": 1, "rest": "drop", "rules": [{"from": "note", "to": "n",)" +
        std::string(change) + "}]}");
    ASSERT_TRUE(of_text.ok());
    EXPECT_EQ(
        WithRecipe(std::make_unique<ScatteredSource>(arrays, 0), *of_text, {})
            .status()
            .message(),
        "recipe: rule 1 (note): leaf \"note\" is a string (want an array "
        "for \"axes\", \"cast\" and \"dequantize\")");
  }
}

TEST(RecipeErrors, SizesDivide) {
  const std::string heads =
      R"j({"from": "w", "to": "t", "axes": "(heads d) e -> heads d e"})j";
  const std::vector<std::pair<std::string, Shape>> w = {{"w", {10, 2}}};
  RecipeOptions options;
  EXPECT_EQ(SourceError(heads, w),
            "recipe: rule 2 (w): leaf \"w\": the sizes of axes heads and d of "
            "(heads d) are not known (want one of them in \"sizes\", or set by "
            "the caller)");
  options.config_json = R"({"heads": 3})";
  EXPECT_EQ(SourceError(heads, w, options),
            "recipe: rule 2 (w): leaf \"w\": axis (heads d) of shape (10, 2) "
            "(got 10, want a multiple of 3)");
  options.sizes = {{"heads", 5}, {"d", 4}};
  EXPECT_EQ(SourceError(heads, w, options),
            "recipe: rule 2 (w): leaf \"w\": axis (heads d) of shape (10, 2) "
            "(got 10, want 20)");
  options.sizes = {{"heads", 5}, {"e", 3}};
  EXPECT_EQ(SourceError(heads, w, options),
            "recipe: rule 2 (w): leaf \"w\": axis e of shape (10, 2) (got 2, "
            "want 3)");
  options.sizes = {{"head", 5}};
  EXPECT_EQ(SourceError(heads, w, options),
            "recipe: size head: no rule has an axis of this name");
  options.sizes = {{"heads", 0}};
  EXPECT_EQ(SourceError(heads, w, options),
            "recipe: size heads (got 0, want 1 or more)");
  options.sizes.clear();
  options.config_json = R"({"heads": "3"})";
  EXPECT_EQ(SourceError(heads, w, options),
            "recipe: size heads: \"heads\" of config.json (got \"3\", want a "
            "whole number above 0)");
  options.config_json = "[]";
  EXPECT_EQ(SourceError(heads, w, options),
            "recipe: config.json is not a JSON object");
  EXPECT_EQ(SourceError(heads, {{"w", {10}}}),
            "recipe: rule 2 (w): leaf \"w\": the pattern is of arrays with 2 "
            "axes (got shape (10,))");
  EXPECT_EQ(
      SourceError(R"({"from": "w", "to": "t", "axes": "a b ... -> ... a b"})",
                  {{"w", {10}}}),
      "recipe: rule 2 (w): leaf \"w\": the pattern is of arrays with at "
      "least 2 axes (got shape (10,))");
  EXPECT_EQ(SourceError(R"({"from": "w", "to": "t", "axes": "1 a -> a"})", w),
            "recipe: rule 2 (w): leaf \"w\": axis 1 of shape (10, 2) (got 10, "
            "want 1)");
  options.config_json.clear();
  options.sizes = {{"l", 3}};
  EXPECT_EQ(SourceError(R"({"from": "w.{l}", "to": "t", "axes": "x -> l x"})",
                        {{"w.0", {2}}, {"w.1", {2}}}, options),
            "recipe: rule 2 (w.{l}): leaf \"w.0\": axis l (got 2, want 3)");
  EXPECT_EQ(SourceError(R"({"from": "w", "to": "t.{p}", "axes": "p x -> x",
                            "names": {"p": ["q", "k"]}})",
                        w),
            "recipe: rule 2 (w): leaf \"w\": axis p of shape (10, 2) (got 10, "
            "want 2)");
}

TEST(RecipeErrors, ScalesFit) {
  const auto error = [](const std::string& block, const Shape& scale) {
    return SourceError(
        R"({"from": "w", "to": "t", "dequantize": {"scale": "s")" + block +
            "}}",
        {{"w", {5, 4}}, {"s", scale}});
  };
  EXPECT_EQ(error(R"(, "block": [2, 4])", {3, 1}), "it fits");
  EXPECT_EQ(error(R"(, "block": [2, 2])", {3, 1}),
            "recipe: rule 2 (w): its scale \"s\" (got shape (3, 1), want one "
            "element for each block of (2, 2) of (5, 4))");
  EXPECT_EQ(error(R"(, "block": [2])", {3}),
            "recipe: rule 2 (w): its scale \"s\" (got shape (3,), want one "
            "element for each block of (2,) of (5, 4))");
  EXPECT_EQ(error("", {3, 1}),
            "recipe: rule 2 (w): its scale \"s\" (got shape (3, 1), want one "
            "element for each block of (5, 4) of (5, 4))");
  EXPECT_EQ(
      SourceError(R"({"from": "w", "to": "t", "dequantize": {"scale": "s"}})",
                  {{"w", {5, 4}}}),
      "recipe: rule 2 (w): its scale \"s\" is not there");
  EXPECT_EQ(SourceError(
                R"({"from": "w", "to": "t", "dequantize": {"scale": "s"}},
                   {"drop": "s"})",
                {{"w", {5, 4}}, {"s", {}}}),
            "recipe: rule 3 (s): leaf \"s\" is taken by rule 2, too");
}

TEST(RecipeErrors, TargetsHaveNamesOfTheirOwn) {
  EXPECT_EQ(SourceError(R"({"from": "a", "to": "x"}, {"from": "b", "to": "x"})",
                        {{"a", {}}, {"b", {}}}),
            "recipe: leaf \"x\" of the target is made twice, by rule 2 and by "
            "rule 3");
  EXPECT_EQ(SourceError(R"({"from": "a", "to": ["x", "x"]})", {{"a", {}}}),
            "recipe: leaf \"x\" of the target is made twice, by rule 2 and by "
            "rule 2");
  EXPECT_EQ(SourceError(R"({"from": "a", "to": "x.y"},
                           {"from": "b", "to": "x"})",
                        {{"a", {}}, {"b", {}}}),
            "recipe: leaf \"x.y\" (rule 2) lies below \"x\" (rule 3), which is "
            "a leaf itself");
  // A leaf of the source may lie below another; one that a rule makes may not,
  // wherever it is sorted.
  EXPECT_EQ(SourceError(R"({"from": "a", "to": "x.z"})",
                        {{"x", {}}, {"x.y", {}}, {"a", {}}}, {},
                        R"(, "rest": "keep")"),
            "recipe: leaf \"x.z\" (rule 2) lies below \"x\" (what no rule "
            "takes), which is a leaf itself");
  std::string deep = "x";
  for (int i = 0; i < 512; ++i) deep += ".x";
  EXPECT_EQ(SourceError(R"({"from": "a", "to": ")" + deep + "\"}", {{"a", {}}}),
            "recipe: leaf \"" + deep +
                "\" of the target has 513 keys (want at most 512)");
  EXPECT_EQ(SourceError(R"j({"match": "(a)", "to": "\\1."})j", {{"a", {}}}),
            "recipe: rule 2 ((a)): \"a.\": an empty key");
}

TEST(RecipeErrors, WhatARecipeMakesIsBounded) {
  EXPECT_EQ(SourceError(R"({"from": "w", "to": "t.{n}", "axes": "n -> "})",
                        {{"w", {1 << 19}}}),
            "recipe: rule 2 (w): it makes too many leaves (want at most 262146 "
            "in all, with names of at most 268435456 bytes)");
}

}  // namespace
}  // namespace holdfast
