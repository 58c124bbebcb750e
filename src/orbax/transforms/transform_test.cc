#include "holdfast/orbax/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::HasSubstr;

Result<Tree> Doubled(const Tree& value) {
  return Tree(2 * value.scalar().As<int64_t>());
}

Tree Original() {
  return Tree::Dict({{"a", 1},
                     {"b", Tree::Dict({{"c", 5}, {"d", Tree::List({6, 7})}})},
                     {"b1", Tree::Dict({{"c", 2}})},
                     {"f", 9}});
}

std::string ErrorOf(const Result<Tree>& result) {
  return result.ok() ? "ok" : result.status().ToString();
}

TEST(ApplyTransformations, RenamesChangesAndCarriesOver) {
  const Tree wanted = Tree::Dict({{"a1", 0},
                                  {"x1", Tree::Tuple({Tree(), "kept"})},
                                  {"f", 0},
                                  {"g", "new"},
                                  {"c1", 0},
                                  {"y1", Tree::Dict({{"c", 0}})},
                                  {"none", Tree()},
                                  {"empty", Tree::List()}});
  const Transforms rules = {
      {"a1", Transform{.original_key = "a", .value_fn = Doubled}},
      {R"(y(\d)/(?P<rest>.*))", Transform{.original_key = R"(b\1/\g<rest>)"}},
      {"c1", Transform{.original_key = "b/d/1"}},
  };
  EXPECT_EQ(ApplyTransformations(Original(), rules, wanted).value(),
            Tree::Dict({{"a1", 2},
                        {"x1", Tree::Tuple({Tree(), "kept"})},
                        {"f", 9},
                        {"g", "new"},
                        {"c1", 7},
                        {"y1", Tree::Dict({{"c", 2}})},
                        {"none", Tree()},
                        {"empty", Tree::List()}}));
}

TEST(ApplyTransformations, FallbackIsWhereOtherKeysDoNotComeFrom) {
  const Tree wanted = Tree::Dict({{"a", "new a"}, {"f", "new f"}});
  const Transforms rules = {{"a", Transform{.use_fallback = true}}};
  EXPECT_EQ(ApplyTransformations(Original(), rules, wanted).value(),
            Tree::Dict({{"a", "new a"}, {"f", 9}}));
  EXPECT_EQ(ApplyTransformations(Original(), rules, wanted, false).value(),
            Tree::Dict({{"a", 1}, {"f", "new f"}}));
}

TEST(ApplyTransformations, TheLastRuleThatMatchesDecides) {
  const Tree wanted = Tree::Dict({{"a", 0}});
  const Transforms rules = {{".*", Transform{.original_key = "f"}},
                            {"a", Transform{.original_key = "b/c"}}};
  EXPECT_EQ(ApplyTransformations(Original(), rules, wanted).value(),
            Tree::Dict({{"a", 5}}));
}

TEST(ApplyTransformations, MultiValueFnGetsTheKeyAndTheWholeTree) {
  const auto sum = [](std::string_view key, const Tree& original) {
    return Tree(
        std::string(key) + " " +
        std::to_string(original.FindPath({"b", "c"})->scalar().As<int64_t>() +
                       original.Find("a")->scalar().As<int64_t>()));
  };
  const Transforms rules = {{"z/.*", Transform{.multi_value_fn = sum}}};
  const Tree wanted = Tree::Dict({{"z", Tree::List({0, 0})}});
  EXPECT_EQ(ApplyTransformations(Original(), rules, wanted).value(),
            Tree::Dict({{"z", Tree::List({"z/0 6", "z/1 6"})}}));
}

TEST(ApplyTransformations, GivesAnEmptyDictForNothing) {
  EXPECT_EQ(ApplyTransformations(Original(), {}, Tree()).value(), Tree::Dict());
  EXPECT_EQ(ApplyTransformations(Original(), {}, Tree::List()).value(),
            Tree::Dict());
  EXPECT_EQ(ApplyTransformations(Tree(3), {}, Tree(0)).value(), Tree(3));
}

TEST(ApplyTransformations, RefusesInOrbaxWords) {
  const Tree wanted = Tree::Dict({{"w", 0}});
  EXPECT_EQ(
      ErrorOf(ApplyTransformations(
          Original(), {{"w", Transform{.original_key = "no/key"}}}, wanted)),
      "INVALID_ARGUMENT: Transformation key \"no/key\" not found in "
      "origin tree.");
  EXPECT_EQ(
      ErrorOf(ApplyTransformations(
          Original(), {{"w", Transform{.use_fallback = true}}}, wanted, false)),
      "INVALID_ARGUMENT: w not found in origin tree (`use_fallback` "
      "requested).");
  EXPECT_EQ(
      ErrorOf(ApplyTransformations(Original(), {{"(", Transform{}}}, wanted)),
      "INVALID_ARGUMENT: regular expression '(': missing ), unterminated "
      "subpattern at position 0");
  EXPECT_EQ(
      ErrorOf(ApplyTransformations(
          Original(), {{"w", Transform{.original_key = R"(\3)"}}}, wanted)),
      "INVALID_ARGUMENT: original_key '\\\\3': invalid group reference 3 "
      "at position 1");
}

TEST(ApplyTransformations, PassesOnWhatACallbackReturns) {
  const auto fail = [](const Tree&) -> Result<Tree> {
    return UnavailableError("later");
  };
  EXPECT_EQ(ErrorOf(ApplyTransformations(Original(),
                                         {{"a", Transform{.value_fn = fail}}},
                                         Tree::Dict({{"a", 0}}))),
            "UNAVAILABLE: later");
}

TEST(CheckTransform, RefusesFieldsThatExcludeEachOther) {
  const auto multi = [](std::string_view, const Tree&) { return Tree(1); };
  const auto args_multi = [](std::string_view, const Tree&,
                             const AnyRestoreArgs&) { return Tree(1); };
  EXPECT_TRUE(CheckTransform(Transform{}).ok());
  EXPECT_TRUE(
      CheckTransform(Transform{.original_key = "a", .value_fn = Doubled}).ok());
  const decltype(RestoreTransform::multi_value_fn_input_args) no_input_args(
      std::in_place);
  const AnyTransform bad[] = {
      Transform{.original_key = "a", .use_fallback = true},
      Transform{.use_fallback = true, .value_fn = Doubled},
      Transform{.use_fallback = true, .multi_value_fn = multi},
      Transform{.original_key = "a", .multi_value_fn = multi},
      Transform{.value_fn = Doubled, .multi_value_fn = multi},
      RestoreTransform{.value_fn = Doubled, .multi_value_fn = args_multi},
      RestoreTransform{.original_key = "a",
                       .multi_value_fn_input_args = no_input_args},
  };
  for (const AnyTransform& transform : bad) {
    EXPECT_EQ(CheckTransform(transform).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(ApplyTransformations(Original(), {{"a", transform}},
                                   Tree::Dict({{"a", 0}}))
                  .status()
                  .code(),
              StatusCode::kInvalidArgument);
  }
}

AnyRestoreArgs As(DType dtype) { return RestoreArgs{.dtype = dtype}; }

// Returns the dtype as which each stored leaf is read, or "-" if it is not
// read.
std::string Plan(const std::vector<TreePath>& stored, const Tree& item,
                 const Transforms& rules, const RestoreArgsMap* args,
                 bool default_to_original = true) {
  const Result<TransformPlan> plan =
      PlanTransforms(stored, &item, rules, args, default_to_original);
  if (!plan.ok()) return plan.status().ToString();
  std::string text;
  for (const std::optional<AnyRestoreArgs>& leaf : plan->args) {
    if (!text.empty()) text += " ";
    const RestoreArgs* plain =
        leaf ? std::get_if<RestoreArgs>(&*leaf) : nullptr;
    text += !leaf                               ? "-"
            : plain == nullptr || !plain->dtype ? "read"
                                                : DTypeName(*plain->dtype);
  }
  return text;
}

TEST(PlanTransforms, ReadsWhatTheItemNeedsAlone) {
  const std::vector<TreePath> stored = {
      {"a"}, {"b", "c"}, {"b", "d"}, {"e"}, {"f"}};
  const Tree item = Tree::Dict(
      {{"a", 0}, {"new", 0}, {"f", 0}, {"moved", Tree::Dict({{"c", 0}})}});
  const RestoreArgsMap args = {{"a", As(DType::kInt8)},
                               {"f", As(DType::kInt16)},
                               {"moved.c", As(DType::kInt32)}};
  const Transforms rules = {{"moved/(.)", Transform{.original_key = R"(b/\1)"}},
                            {"f", Transform{.use_fallback = true}}};
  EXPECT_EQ(Plan(stored, item, rules, &args), "int8 int32 - - -");
  EXPECT_EQ(Plan(stored, item, rules, &args, false), "- int32 - - int16");
}

TEST(PlanTransforms, InputsOfMultiValueFnAreReadAsTheySay) {
  const auto multi = [](std::string_view, const Tree&, const AnyRestoreArgs&) {
    return Tree(1);
  };
  const Transforms rules = {
      {"out", RestoreTransform{
                  .multi_value_fn = multi,
                  .multi_value_fn_input_args = {{{"b/.*", As(DType::kInt64)},
                                                 {"b/c", As(DType::kInt8)}}}}}};
  const RestoreArgsMap args = {{"out", As(DType::kFloat32)}};
  EXPECT_EQ(Plan({{"b", "c"}, {"b", "d"}, {"x"}}, Tree::Dict({{"out", 0}}),
                 rules, &args),
            "int64 int64 -");
}

TEST(PlanTransforms, WithoutArgumentsStoredNamesHaveDefaults) {
  const Tree item = Tree::Dict({{"a", 0}});
  EXPECT_EQ(Plan({{"a"}, {"b"}}, item, {}, nullptr), "read -");
  EXPECT_EQ(Plan({{"b"}}, Tree::Dict({{"w", Tree::List({0})}}),
                 {{"w/0", Transform{.original_key = "b"}}}, nullptr),
            "NOT_FOUND: ('w', '0')");
}

TEST(PlanTransforms, RefusesInOrbaxWords) {
  const RestoreArgsMap none;
  EXPECT_EQ(Plan({{"a"}}, Tree::Dict({{"a", 0}}), {}, &none),
            "NOT_FOUND: ('a',)");
  EXPECT_EQ(PlanTransforms({}, nullptr, {}, &none).status().message(),
            "If providing `transforms`, must provide `item` matching structure "
            "of expected result.");
  const auto multi = [](std::string_view, const Tree&) { return Tree(1); };
  EXPECT_THAT(Plan({{"a"}}, Tree::Dict({{"a", 0}}),
                   {{"a", Transform{.multi_value_fn = multi}}}, &none),
              HasSubstr("Must use RestoreTransform in order to use"));
  const auto args_multi = [](std::string_view, const Tree&,
                             const AnyRestoreArgs&) { return Tree(1); };
  EXPECT_THAT(
      Plan({{"a"}}, Tree::Dict({{"a", 0}}),
           {{"a", RestoreTransform{.multi_value_fn = args_multi}}}, &none),
      HasSubstr("`multi_value_fn_input_args` were not. The latter"));
}

TEST(TransformRestored, GivesEachMultiValueFnItsArguments) {
  const auto name = [](std::string_view key, const Tree&,
                       const AnyRestoreArgs& args) {
    return Tree(std::string(key) + " " +
                std::string(DTypeName(*std::get<RestoreArgs>(args).dtype)));
  };
  const Transforms rules = {{"o/.*", RestoreTransform{.multi_value_fn = name}}};
  const Tree item = Tree::Dict({{"o", Tree::Dict({{"x", 0}})}});
  const RestoreArgsMap args = {{"o.x", As(DType::kInt8)}};
  EXPECT_EQ(TransformRestored(item, Original(), &args, rules).value(),
            Tree::Dict({{"o", Tree::Dict({{"x", "o/x int8"}})}}));
  const RestoreArgsMap none;
  EXPECT_EQ(ErrorOf(TransformRestored(item, Original(), &none, rules)),
            "NOT_FOUND: 'o/x'");
  EXPECT_THAT(ErrorOf(TransformRestored(item, Original(), nullptr, rules)),
              HasSubstr("must provide `restore_args` matching structure"));
}

}  // namespace
}  // namespace holdfast
