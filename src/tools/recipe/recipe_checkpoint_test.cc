// Compares the targets of random recipes with a slow reference, which finds
// each element by its positions on the named axes.
#include "tools/recipe/recipe_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tools/recipe/recipe_test_util.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Recipe ParsedRecipe(const std::string& text) {
  auto recipe = Recipe::Parse(text);
  EXPECT_TRUE(recipe.ok()) << recipe.status().ToString() << "\n" << text;
  return *recipe;
}

std::string OneRule(const std::string& members) {
  return R"({"recipe": 1, "rest": "keep", "rules": [{)" + members + "}]}";
}

// ----- random recipes -------------------------------------------------------

// A rule: the sizes of its axes, and where each axis is.
struct RandomRule {
  std::map<std::string, int64_t> sizes;
  std::vector<std::vector<std::string>> source, target;  // axes
  std::vector<std::string> stacked, split, kept;
  std::string text;  // its members
};

std::string AxisText(const std::vector<std::string>& axis) {
  std::string text;
  for (const std::string& name : axis) text += (text.empty() ? "" : " ") + name;
  if (axis.empty()) return "1";
  return axis.size() == 1 ? text : "(" + text + ")";
}

// Distributes the names over axes in random order.
std::vector<std::vector<std::string>> RandomAxes(std::vector<std::string> names,
                                                 std::mt19937& random) {
  std::shuffle(names.begin(), names.end(), random);
  std::vector<std::vector<std::string>> axes;
  for (std::string& name : names) {
    if (random() % 8 == 0) axes.emplace_back();
    if (axes.empty() || random() % 2 == 0) axes.emplace_back();
    axes.back().push_back(std::move(name));
  }
  return axes;
}

std::string SideText(const std::vector<std::vector<std::string>>& axes,
                     size_t rest_at, bool has_rest) {
  std::string text;
  for (size_t i = 0; i <= axes.size(); ++i) {
    if (has_rest && i == rest_at) text += " ...";
    if (i < axes.size()) text += " " + AxisText(axes[i]);
  }
  return text;
}

// Inserts the axes "...0", "...1", ... that "..." means.
void InsertRest(std::vector<std::vector<std::string>>& axes, size_t at,
                int count) {
  for (int i = 0; i < count; ++i) {
    axes.insert(axes.begin() + at + i, {"..." + std::to_string(i)});
  }
}

RandomRule MakeRule(std::mt19937& random) {
  RandomRule rule;
  std::vector<std::string> left, right;
  const int count = 1 + random() % 6;
  for (int i = 0; i < count; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    rule.sizes[name] = 1 + random() % 4;
    const bool is_stacked = random() % 5 == 0;
    const bool is_split = !is_stacked && random() % 5 == 0;
    (is_stacked ? rule.stacked : left).push_back(name);
    (is_split ? rule.split : right).push_back(name);
  }
  if (random() % 3 == 0) {
    rule.kept.push_back("k");
    rule.sizes["k"] = 1 + random() % 3;
  }
  rule.source = RandomAxes(left, random);
  rule.target = RandomAxes(right, random);
  const bool has_rest = random() % 3 == 0;
  const size_t source_at = random() % (rule.source.size() + 1);
  const size_t target_at = random() % (rule.target.size() + 1);
  const std::string axes = SideText(rule.source, source_at, has_rest) + " ->" +
                           SideText(rule.target, target_at, has_rest);
  if (has_rest) {
    const int rest_count = random() % 3;
    InsertRest(rule.source, source_at, rest_count);
    InsertRest(rule.target, target_at, rest_count);
    for (int i = 0; i < rest_count; ++i) {
      rule.sizes["..." + std::to_string(i)] = 1 + random() % 3;
    }
  }
  std::string from = "w", to = "t";
  for (const std::string& name : rule.kept) {
    from += ".{" + name + "}";
    to += ".{" + name + "}";
  }
  for (const std::string& name : rule.stacked) from += ".{" + name + "}";
  for (const std::string& name : rule.split) to += ".{" + name + "}";
  rule.text = R"("from": ")" + from + R"(", "to": ")" + to + R"(", "axes": ")" +
              axes + "\"";
  return rule;
}

// An element's position on each axis, by the axis' name.
using At = std::map<std::string, int64_t>;

// Calls fn with every combination of positions on the named axes.
void ForEach(const std::vector<std::string>& names, const RandomRule& rule,
             At at, const std::function<void(const At&)>& fn, size_t i = 0) {
  if (i == names.size()) return fn(at);
  for (int64_t step = 0; step < rule.sizes.at(names[i]); ++step) {
    at[names[i]] = step;
    ForEach(names, rule, at, fn, i + 1);
  }
}

Shape ShapeOfSide(const std::vector<std::vector<std::string>>& axes,
                  const RandomRule& rule) {
  Shape shape;
  for (const auto& axis : axes) {
    shape.push_back(1);
    for (const std::string& name : axis) shape.back() *= rule.sizes.at(name);
  }
  return shape;
}

int64_t IndexOfSide(const std::vector<std::vector<std::string>>& axes,
                    const RandomRule& rule, const At& at) {
  int64_t index = 0;
  for (const auto& axis : axes) {
    for (const std::string& name : axis) {
      index = index * rule.sizes.at(name) + at.at(name);
    }
  }
  return index;
}

std::string NameAt(std::string name, const std::vector<std::string>& kept,
                   const std::vector<std::string>& others, const At& at) {
  for (const auto* names : {&kept, &others}) {
    for (const std::string& placeholder : *names) {
      name += "." + std::to_string(at.at(placeholder));
    }
  }
  return name;
}

std::vector<std::string> Flat(const std::vector<std::vector<std::string>>& axes,
                              const std::vector<std::string>& more) {
  std::vector<std::string> names = more;
  for (const auto& axis : axes) {
    names.insert(names.end(), axis.begin(), axis.end());
  }
  return names;
}

struct Twin {
  std::vector<NamedArray> source;
  std::map<std::string, std::vector<int32_t>> targets;
};

Twin MakeTwin(const RandomRule& rule) {
  Twin twin;
  const Shape shape = ShapeOfSide(rule.source, rule);
  std::map<std::string, int32_t> first_of;
  int32_t first = 1;
  ForEach(rule.kept, rule, {}, [&](const At& kept) {
    ForEach(rule.stacked, rule, kept, [&](const At& at) {
      const std::string name = NameAt("w", rule.kept, rule.stacked, at);
      twin.source.push_back({name, CountingArray(shape, first)});
      first_of[name] = first;
      first += ElementCount(shape);
    });
    std::vector<std::string> all = Flat(rule.source, rule.stacked);
    ForEach(all, rule, kept, [&](const At& at) {
      auto& target = twin.targets[NameAt("t", rule.kept, rule.split, at)];
      target.resize(ElementCount(ShapeOfSide(rule.target, rule)));
      target[IndexOfSide(rule.target, rule, at)] =
          first_of.at(NameAt("w", rule.kept, rule.stacked, at)) +
          IndexOfSide(rule.source, rule, at);
    });
  });
  return twin;
}

RecipeOptions SizesOf(const RandomRule& rule) {
  RecipeOptions options;
  for (const auto& [name, size] : rule.sizes) {
    if (name[0] != '.' && name != "k") options.sizes[name] = size;
  }
  return options;
}

std::unique_ptr<Checkpoint> Seen(std::unique_ptr<Checkpoint> source,
                                 const std::string& text,
                                 const RecipeOptions& options = {}) {
  auto seen = WithRecipe(std::move(source), ParsedRecipe(text), options);
  EXPECT_TRUE(seen.ok()) << seen.status().ToString() << "\n" << text;
  return seen.ok() ? std::move(seen).value() : nullptr;
}

Box RandomBox(const Shape& shape, std::mt19937& random) {
  Box box = BoxOf(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    box.origin[d] = random() % shape[d];
    box.shape[d] = 1 + random() % (shape[d] - box.origin[d]);
  }
  return box;
}

// Reads a box into memory with gaps, and compares the elements.
void CheckBox(const Checkpoint& seen, size_t leaf, const Array& whole,
              const Box& box, DType as, std::mt19937& random) {
  Shape padded = box.shape;
  for (int64_t& extent : padded) extent += random() % 2;
  Array memory = Array::Allocate(as, padded).value();
  ArrayView target = memory.mutable_view();
  target.shape = box.shape;
  RunOptions run;
  run.threads = 1 + random() % 2;
  run.memory_bytes = random() % 2 == 0 ? 24 : 1 << 20;
  const auto stats = seen.ReadInto({{leaf, box.origin, target}}, run);
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  Array got = Array::Allocate(as, box.shape).value();
  CopyStrided(target, got.mutable_view());
  Array want = Array::Allocate(as, box.shape).value();
  ConvertStrided(Subview(whole.view(), box), want.mutable_view());
  EXPECT_EQ(BytesOf(got), BytesOf(want)) << BoxToString(box);
}

// Reads a box of every leaf in one call, and compares the elements.
void CheckBoxes(const Checkpoint& seen, const std::vector<NamedArray>& wholes,
                std::mt19937& random) {
  std::vector<Array> got;
  std::vector<Box> boxes;
  for (const NamedArray& whole : wholes) {
    boxes.push_back(RandomBox(whole.array.shape(), random));
    got.push_back(Array::Allocate(DType::kFloat64, boxes.back().shape).value());
  }
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < wholes.size(); ++i) {
    requests.push_back({seen.Find(wholes[i].name).value(), boxes[i].origin,
                        got[i].mutable_view()});
  }
  const auto stats = seen.ReadInto(requests);
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  for (size_t i = 0; i < wholes.size(); ++i) {
    Array want = Array::Allocate(DType::kFloat64, boxes[i].shape).value();
    ConvertStrided(Subview(wholes[i].array.view(), boxes[i]),
                   want.mutable_view());
    EXPECT_EQ(BytesOf(got[i]), BytesOf(want)) << wholes[i].name;
  }
}

// Reads the leaf from its extents, and compares the elements.
void CheckExtents(const Checkpoint& seen, size_t leaf, const Array& whole,
                  std::shared_ptr<Store> store) {
  auto extents = ExtentsOf(seen, leaf);
  ASSERT_TRUE(extents.ok()) << extents.status().ToString();
  ASSERT_EQ(extents->why_not, "");
  std::vector<ExtentLeaf> leaves(1);
  leaves[0].info = seen.leaves()[leaf];
  leaves[0].extents = extents->extents;
  const auto again =
      MakeExtentCheckpoint({}, std::move(store), std::move(leaves));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  const auto got = (*again)->Read(0);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(BytesOf(*got), BytesOf(whole));
}

void CheckRandomRule(uint32_t seed) {
  std::mt19937 random(seed);
  const RandomRule rule = MakeRule(random);
  const Twin twin = MakeTwin(rule);
  const bool casts = random() % 3 == 0;
  auto source = std::make_unique<ScatteredSource>(twin.source, seed);
  const auto store = source->store();
  const auto seen = Seen(
      std::move(source),
      OneRule(rule.text + (casts ? R"(, "cast": "int8")" : "")), SizesOf(rule));
  ASSERT_NE(seen, nullptr);
  const Shape shape = ShapeOfSide(rule.target, rule);
  ASSERT_EQ(seen->leaves().size(), twin.targets.size() + 1);  // "note"
  std::vector<NamedArray> targets, wholes;
  for (const auto& [name, values] : twin.targets) {
    const auto leaf = seen->Find(name);
    ASSERT_TRUE(leaf.ok()) << leaf.status().ToString();
    const LeafInfo& info = seen->leaves()[*leaf];
    EXPECT_EQ(info.shape, shape);
    EXPECT_EQ(info.dtype, casts ? DType::kInt8 : DType::kInt32);
    EXPECT_EQ(info.decoded_bytes, values.size() * (casts ? 1 : 4));
    EXPECT_EQ(info.chunk_shape.size(), shape.size());
    Array whole = Array::FromBytes(DType::kInt32, shape, values.data());
    targets.push_back({name, whole});
    if (casts) {
      Array cast = Array::Allocate(DType::kInt8, shape).value();
      ConvertStrided(whole.view(), cast.mutable_view());
      whole = cast;
      EXPECT_EQ(ExtentsOf(*seen, *leaf)->why_not, "cast to int8");
    } else {
      CheckExtents(*seen, *leaf, whole, store);
    }
    wholes.push_back({name, whole});
    const auto read = seen->Read(*leaf);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(BytesOf(*read), BytesOf(whole));
    for (int i = 0; i < 4; ++i) {
      const DType as = random() % 2 == 0 ? whole.dtype() : DType::kFloat64;
      CheckBox(*seen, *leaf, whole, RandomBox(shape, random), as, random);
    }
  }
  CheckBoxes(*seen, wholes, random);
  // Apply the same recipe in reverse.
  RecipeOptions backwards = SizesOf(rule);
  backwards.reverse = true;
  const auto back = Seen(std::make_unique<ScatteredSource>(targets, seed),
                         OneRule(rule.text), backwards);
  ASSERT_NE(back, nullptr);
  for (const NamedArray& array : twin.source) {
    const auto read = back->Read(array.name);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->shape(), array.array.shape());
    EXPECT_EQ(BytesOf(*read), BytesOf(array.array));
  }
}

TEST(RecipeCheckpoint, GivesWhatItsTwinGives) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckRandomRule(seed);
    if (HasFailure()) {
      std::mt19937 random(seed);
      FAIL() << MakeRule(random).text;
    }
  }
}

// ----- single cases ---------------------------------------------------------

std::unique_ptr<ScatteredSource> SourceOf(std::vector<NamedArray> arrays) {
  return std::make_unique<ScatteredSource>(arrays, 0);
}

std::vector<std::string> NamesOf(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const LeafInfo& leaf : checkpoint.leaves()) names.push_back(leaf.name);
  return names;
}

TEST(RecipeCheckpoint, OrdersLeavesByRulesAndNumbers) {
  std::vector<NamedArray> arrays;
  for (int i = 11; i >= 0; --i) {
    arrays.push_back({"l." + std::to_string(i), CountingArray({2}, i)});
  }
  arrays.push_back({"b", CountingArray({2, 3})});
  const auto seen = Seen(SourceOf(arrays), R"({"recipe": 1, "rest": "keep",
    "rules": [
      {"from": "b", "to": ["c.{part}", "d\\.e.{part}"],
       "axes": "x part -> x", "names": {"part": ["q", "k", "v.w"]}},
      {"from": "l.{n}", "to": "m{n}"}]})");
  ASSERT_NE(seen, nullptr);
  EXPECT_THAT(NamesOf(*seen),
              ElementsAre("c.q", "d.e.q", "c.k", "d.e.k", "c.v.w", "d.e.v.w",
                          "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8",
                          "m9", "m10", "m11", "note"));
  EXPECT_THAT(seen->leaves()[1].key, ElementsAre("d.e", "q"));
  EXPECT_THAT(seen->leaves()[4].key, ElementsAre("c", "v", "w"));
  EXPECT_EQ(seen->ReadText("note").value(), "some words");
  EXPECT_EQ(seen->Read("m11")->As<int32_t>().value()[0], 11);
  EXPECT_THAT(seen->Read("d.e.v.w")->As<int32_t>().value(), ElementsAre(2, 5));
}

TEST(RecipeCheckpoint, TakesElseWhereFromIsNotThere) {
  const std::string text = R"({"recipe": 1, "rest": "drop", "rules": [
      {"from": "embed", "to": "e"},
      {"from": "head", "else": "embed", "to": "h", "axes": "v e -> e v"}]})";
  const auto tied = Seen(SourceOf({{"embed", CountingArray({2, 3})}}), text);
  ASSERT_NE(tied, nullptr);
  EXPECT_THAT(tied->Read("h")->As<int32_t>().value(),
              ElementsAre(0, 3, 1, 4, 2, 5));
  const auto own = Seen(SourceOf({{"embed", CountingArray({2, 3})},
                                  {"head", CountingArray({1, 2}, 7)}}),
                        text);
  ASSERT_NE(own, nullptr);
  EXPECT_THAT(own->Read("h")->As<int32_t>().value(), ElementsAre(7, 8));
  // In reverse, the tied tensor becomes a separate one.
  RecipeOptions backwards;
  backwards.reverse = true;
  const auto back = Seen(
      SourceOf({{"e", CountingArray({2, 3})}, {"h", CountingArray({3, 2})}}),
      text, backwards);
  ASSERT_NE(back, nullptr);
  EXPECT_THAT(NamesOf(*back), ElementsAre("embed", "head"));
}

TEST(RecipeCheckpoint, OfTiedNamesTheFirstCountsBackwards) {
  RecipeOptions backwards;
  backwards.reverse = true;
  const auto back = Seen(
      SourceOf({{"x", CountingArray({2}, 5)}, {"y", CountingArray({2}, 8)}}),
      R"({"recipe": 1, "rules": [{"from": "w", "to": ["y", "x"]},
                                 {"from": "note", "to": "note"},
                                 {"drop": "unused.*"}]})",
      backwards);
  ASSERT_NE(back, nullptr);
  EXPECT_THAT(NamesOf(*back), ElementsAre("w", "note"));
  EXPECT_EQ(back->Read("w")->As<int32_t>().value()[0], 8);
}

TEST(RecipeCheckpoint, RenamesWhatAnExpressionMatches) {
  const auto seen =
      Seen(SourceOf({{"a.0.w", CountingArray({1, 2})},
                     {"a.3.w", CountingArray({1, 2}, 9)}}),
           OneRule(R"j("match": "a\\.(?P<n>\\d)\\.(.*)", "cast": "float32",
                  "to": "b.\\g<n>\\.\\2", "axes": "1 x -> x")j"));
  ASSERT_NE(seen, nullptr);
  EXPECT_THAT(NamesOf(*seen), ElementsAre("b.0.w", "b.3.w", "note"));
  EXPECT_THAT(seen->leaves()[1].key, ElementsAre("b", "3.w"));
  EXPECT_THAT(seen->Read("b.3.w")->As<float>().value(), ElementsAre(9, 10));
}

TEST(RecipeCheckpoint, RoundsToTheLeafsDtypeBeforeTheTargets) {
  const auto seen = Seen(SourceOf({{"w", CountingArray({3}, 255)}}),
                         OneRule(R"("from": "w", "to": "t", "cast": "uint8")"));
  ASSERT_NE(seen, nullptr);
  Array got = Array::Allocate(DType::kFloat32, {3}).value();
  ASSERT_TRUE(seen->ReadInto({{0, {0}, got.mutable_view()}}).ok());
  EXPECT_THAT(got.As<float>().value(), ElementsAre(255, 0, 1));
}

TEST(RecipeCheckpoint, SizesComeFromTheCallerThenTheConfig) {
  const std::string text = R"({"recipe": 1, "rest": "drop",
    "sizes": {"h": ["none.heads", "text.heads", 2]},
    "rules": [{"from": "w", "to": "t", "axes": "(h d) -> h d"}]})";
  const auto shape = [&](std::string config,
                         std::map<std::string, int64_t> sizes) {
    RecipeOptions options;
    options.config_json = std::move(config);
    options.sizes = std::move(sizes);
    const auto seen =
        Seen(SourceOf({{"w", CountingArray({12})}}), text, options);
    return seen == nullptr ? Shape() : seen->leaves()[0].shape;
  };
  EXPECT_EQ(shape("", {}), Shape({2, 6}));
  EXPECT_EQ(shape(R"({"none": {"heads": null}, "text": {"heads": 3}})", {}),
            Shape({3, 4}));
  EXPECT_EQ(shape(R"({"text": {"heads": 3}})", {{"h", 4}}), Shape({4, 3}));
  EXPECT_EQ(shape(R"({"text": {"heads": 3}})", {{"d", 4}}), Shape({3, 4}));
}

std::string ListText(const Shape& numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + text + "]";
}

// Compares with a reference that scales one element at a time.
TEST(RecipeCheckpoint, DequantizesAsItsTwin) {
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Shape shape(1 + random() % 3), block, scale_shape;
    for (int64_t& extent : shape) {
      extent = 1 + random() % 7;
      block.push_back(1 + random() % 4);
      scale_shape.push_back((extent + block.back() - 1) / block.back());
    }
    const Array elements = CountingArray(shape, 1);
    std::vector<float> scales(ElementCount(scale_shape));
    for (float& scale : scales) scale = 1.0f / (1 + random() % 50);
    std::vector<float> want;
    for (int64_t i = 0; i < elements.element_count(); ++i) {
      int64_t rest = i, scale = 0, step = 1;
      for (size_t d = shape.size(); d-- > 0;) {
        scale += rest % shape[d] / block[d] * step;
        step *= scale_shape[d];
        rest /= shape[d];
      }
      want.push_back(static_cast<float>(i + 1) * scales[scale]);
    }
    Array whole = Array::FromBytes(DType::kFloat32, shape, want.data());
    if (seed % 2 == 0) {
      Array cast = Array::Allocate(DType::kBfloat16, shape).value();
      ConvertStrided(whole.view(), cast.mutable_view());
      whole = cast;
    }
    const auto seen =
        Seen(SourceOf({{"w", elements},
                       {"s", Array::FromBytes(DType::kFloat32, scale_shape,
                                              scales.data())}}),
             OneRule(R"("from": "w", "to": "t", "dequantize": {"scale": "s",
                   "block": )" +
                     ListText(block) + "}" +
                     (seed % 2 == 0 ? R"(, "cast": "bfloat16")" : "")));
    ASSERT_NE(seen, nullptr);
    EXPECT_THAT(NamesOf(*seen), ElementsAre("t", "note"));
    EXPECT_EQ(ExtentsOf(*seen, 0)->why_not, "dequantized");
    for (int i = 0; i < 6; ++i) {
      CheckBox(*seen, 0, whole, RandomBox(shape, random),
               i % 2 == 0 ? whole.dtype() : DType::kFloat64, random);
    }
  }
}

TEST(RecipeCheckpoint, ScalesWithoutBlocksAreOfTheWholeOrOfRows) {
  const float scales[] = {2, 10};
  for (const Shape& shape : {Shape(), Shape({1}), Shape({2, 1})}) {
    const auto seen = Seen(
        SourceOf({{"w", CountingArray({2, 2})},
                  {"s", Array::FromBytes(DType::kFloat32, shape, scales)}}),
        OneRule(R"("from": "w", "to": "t", "dequantize": {"scale": "s"})"));
    ASSERT_NE(seen, nullptr);
    const float row = shape.size() == 2 ? 10 : 2;
    EXPECT_THAT(seen->Read("t")->As<float>().value(),
                ElementsAre(0, 2, 2 * row, 3 * row));
  }
}

TEST(RecipeCheckpoint, LargeArraysGoThroughInPieces) {
  // Columns are not contiguous in the source, so 16 MiB are streamed.
  const Shape shape = {2048, 2048};
  const Array elements = CountingArray(shape);
  const auto seen =
      Seen(SourceOf({{"w", elements}}),
           OneRule(R"j("from": "w", "to": "t", "axes": "e (a b) -> e (b a)")j"),
           {{{"b", 2}}, "", false});
  ASSERT_NE(seen, nullptr);
  const auto got = seen->Read("t");
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  const auto values = got->As<int32_t>().value();
  int wrong = 0;
  for (int64_t i = 0; i < 2048; ++i) {
    for (int64_t j = 0; j < 2048; ++j) {
      const int64_t column = j % 1024 * 2 + j / 1024;
      wrong += values[i * 2048 + j] != i * 2048 + column;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(RecipeCheckpoint, SaysWhyElementsCannotBeReferredTo) {
  const auto seen = Seen(
      SourceOf({{"w", CountingArray({512, 512})}}),
      OneRule(
          R"j("from": "w", "to": "t", "axes": "(a b) (c d) -> (b a d c)")j"),
      {{{"a", 2}, {"c", 2}}, "", false});
  ASSERT_NE(seen, nullptr);
  const auto extents = ExtentsOf(*seen, 0);
  ASSERT_TRUE(extents.ok());
  EXPECT_THAT(extents->why_not, HasSubstr("more than 65536 places"));
  EXPECT_TRUE(extents->extents.empty());
}

TEST(RecipeCheckpoint, KeepsListsThatStayWhole) {
  constexpr KeyKind kName = KeyKind::kName, kIndex = KeyKind::kIndex;
  auto source = SourceOf({{"a.0", CountingArray({1})},
                          {"a.1", CountingArray({1})},
                          {"b.0", CountingArray({1})},
                          {"b.1", CountingArray({1})}});
  source->SetKey(0, {"a", "0"}, {kName, kIndex});
  source->SetKey(1, {"a", "1"}, {kName, kIndex});
  source->SetKey(2, {"b", "0"}, {kName, kIndex});
  source->SetKey(3, {"b", "1"}, {kName, kIndex});
  const auto seen =
      Seen(std::move(source), OneRule(R"("from": "b.0", "to": "c.0")"));
  ASSERT_NE(seen, nullptr);
  EXPECT_THAT(NamesOf(*seen), ElementsAre("c.0", "a.0", "a.1", "b.1", "note"));
  EXPECT_THAT(seen->leaves()[0].key_kinds, ElementsAre(kName, kName));
  EXPECT_THAT(seen->leaves()[1].key_kinds, ElementsAre(kName, kIndex));
  EXPECT_THAT(seen->leaves()[3].key_kinds, ElementsAre(kName, kName));
  EXPECT_TRUE(seen->Structure().ok());
}

TEST(RecipeCheckpoint, ShippedRecipesParse) {
  EXPECT_FALSE(Recipe::Names().empty());
  for (const std::string& name : Recipe::Names()) {
    const auto recipe = Recipe::Named(name);
    EXPECT_TRUE(recipe.ok()) << name << ": " << recipe.status().ToString();
    EXPECT_FALSE(recipe.ok() && recipe->about().empty()) << name;
  }
  const auto none = Recipe::Named("none");
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(none.status().ToString(), HasSubstr("\"none\" (shipped are "));
}

}  // namespace
}  // namespace holdfast
