#include "tools/convert/leaf_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LeafInfo LeafOf(std::vector<std::string> key) {
  LeafInfo leaf;
  for (const std::string& part : key) {
    leaf.name += (leaf.name.empty() ? "" : ".") + part;
  }
  leaf.key_kinds.resize(key.size());
  leaf.key = std::move(key);
  leaf.dtype = DType::kFloat32;
  leaf.shape = {4, 6};
  return leaf;
}

std::vector<LeafInfo> Model() {
  return {LeafOf({"opt", "mu"}), LeafOf({"params", "a", "b"}),
          LeafOf({"params", "a", "w"}), LeafOf({"step"})};
}

std::vector<std::string> Names(const Result<MappedLeaves>& mapped) {
  EXPECT_TRUE(mapped.ok()) << mapped.status().ToString();
  std::vector<std::string> names;
  if (!mapped.ok()) return names;
  for (const TargetLeaf& leaf : mapped->leaves) names.push_back(leaf.name);
  return names;
}

std::string Why(const Result<MappedLeaves>& mapped) {
  EXPECT_FALSE(mapped.ok());
  return std::string(mapped.status().message());
}

TEST(LeafMap, EmptyKeepsEverything) {
  const auto leaves = Model();
  const auto mapped = MapLeaves(leaves, {}, {});
  ASSERT_EQ(Names(mapped).size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(mapped->leaves[i].source, i);
    EXPECT_EQ(mapped->leaves[i].key, leaves[i].key);
    EXPECT_EQ(mapped->leaves[i].shape, leaves[i].shape);
  }
  EXPECT_TRUE(mapped->report.entries.empty());
  EXPECT_TRUE(mapped->report.notes.empty());
}

TEST(LeafMap, RenamesPathsAndNames) {
  EXPECT_THAT(Names(MapLeaves(Model(), {},
                              {.renames = {{"params/(.*)", "model/\\1"}}})),
              ElementsAre("opt.mu", "model.a.b", "model.a.w", "step"));
  const auto dotted = MapLeaves(
      Model(), {}, {.renames = {{R"(params\.a\.(.*))", "net.\\g<1>"}}});
  EXPECT_THAT(Names(dotted), ElementsAre("opt.mu", "net.b", "net.w", "step"));
  EXPECT_THAT(dotted->leaves[1].key, ElementsAre("net", "b"));
  // Only the first rule that matches applies, and only once.
  EXPECT_THAT(Names(MapLeaves(Model(), {},
                              {.renames = {{"step", "count"},
                                           {"count", "lost"},
                                           {"st.*", "lost"}}})),
              ElementsAre("opt.mu", "params.a.b", "params.a.w", "count"));
}

TEST(LeafMap, OneKeyStaysOneKey) {
  const std::vector<LeafInfo> flat = {LeafOf({"decoder.0.w"}),
                                      LeafOf({"model/w"})};
  const auto mapped =
      MapLeaves(flat, {},
                {.renames = {{R"(decoder\.(.*))", R"(layers.\1)"},
                             {"model/(.*)", R"(net/\1)"}}});
  Names(mapped);
  EXPECT_THAT(mapped->leaves[0].key, ElementsAre("layers.0.w"));
  EXPECT_THAT(mapped->leaves[1].key, ElementsAre("net/w"));
  const auto nested = MapLeaves(flat, {}, {.nest = true});
  EXPECT_THAT(nested->leaves[0].key, ElementsAre("decoder", "0", "w"));
  EXPECT_EQ(nested->leaves[0].name, "decoder.0.w");
  EXPECT_THAT(nested->leaves[1].key, ElementsAre("model/w"));
}

TEST(LeafMap, SelectsDropsAndCasts) {
  auto leaves = Model();
  leaves[3].kind = ValueKind::kScalar;
  const LeafMap map{.select = {"params", "step"},
                    .drop = {"*.b"},
                    .casts = {{"*", DType::kFloat16}, {"*.w", DType::kInt8}}};
  const auto mapped = MapLeaves(leaves, {}, map);
  EXPECT_THAT(Names(mapped), ElementsAre("params.a.w", "step"));
  EXPECT_EQ(mapped->leaves[0].dtype, DType::kInt8);
  EXPECT_EQ(mapped->leaves[1].dtype, DType::kFloat32);
  const auto& entries = mapped->report.entries;
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].leaf, "opt.mu");
  EXPECT_EQ(entries[0].what, "left out");
  EXPECT_EQ(entries[2].what, "cast to int8");
  leaves[2].prng_impl = "threefry2x32";
  EXPECT_EQ(MapLeaves(leaves, {}, map)->leaves[0].dtype, DType::kFloat32);
}

TEST(LeafMap, CutsIntoParts) {
  const auto mapped =
      MapLeaves(Model(), {}, {.shards = {{"params", {3, 4}}, {"*", {2}}}});
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->leaves[1].chunk_shape, (Shape{2, 2}));
  EXPECT_TRUE(mapped->leaves[0].chunk_shape.empty());
}

TEST(LeafMap, RefusesWhatContradicts) {
  const auto rename = [](std::string pattern, std::string replacement) {
    return MapLeaves(Model(), {}, {.renames = {{pattern, replacement}}});
  };
  EXPECT_EQ(Why(rename("params/a/.*", "w")),
            "leaves params.a.b and params.a.w would both be named w");
  EXPECT_EQ(Why(rename("params/a/w", "step/w")),
            "leaf params.a.w would become step.w, below step, which is a leaf "
            "itself (step)");
  EXPECT_EQ(Why(rename("step", "params/a")),
            "leaf params.a.b would become params.a.b, below params.a, which is "
            "a leaf itself (step)");
  EXPECT_THAT(Why(rename("step", "a//b")), HasSubstr("empty key"));
  EXPECT_THAT(Why(rename("(", "x")), HasSubstr("regular expression '('"));
  EXPECT_EQ(Why(MapLeaves(Model(), {}, {.drop = {"*"}})),
            "convert: no leaf is left");
  EXPECT_EQ(Why(MapLeaves(Model(), {"lost"}, {})),
            "no leaf is named \"lost\" or lies below it");
  auto bad = Model();
  bad[0].problem = DataLossError("torn");
  EXPECT_EQ(Why(MapLeaves(bad, {}, {})), "leaf opt.mu: torn");
  EXPECT_TRUE(MapLeaves(bad, {}, {.drop = {"opt"}}).ok());
}

TEST(LeafMap, TellsOfRulesWithoutUse) {
  LeafMap map{.select = {"*", "x1"},
              .drop = {"x2"},
              .renames = {{"x3", "y"}},
              .casts = {{"x4", DType::kInt8}},
              .shards = {{"x5", {1, 1}}}};
  const auto mapped = MapLeaves(Model(), {}, map);
  ASSERT_TRUE(mapped.ok());
  EXPECT_THAT(mapped->report.notes, ElementsAre("select x1: matches no leaf",
                                                "drop x2: matches no leaf",
                                                "rename x3=y: matches no leaf",
                                                "cast x4=int8: matches no leaf",
                                                "shards x5: matches no leaf"));
  map.is_strict = true;
  EXPECT_EQ(Why(MapLeaves(Model(), {}, map)), "select x1: matches no leaf");
}

TEST(LeafMap, AListWithGapsBecomesADict) {
  std::vector<LeafInfo> leaves;
  for (const char* index : {"0", "1", "2"}) {
    leaves.push_back(LeafOf({"list", index}));
    leaves.back().key_kinds = {KeyKind::kName, KeyKind::kIndex};
  }
  EXPECT_EQ(MapLeaves(leaves, {}, {.drop = {"list.2"}})->leaves[1].key_kinds[1],
            KeyKind::kIndex);
  const auto mapped = MapLeaves(leaves, {}, {.drop = {"list.1"}});
  EXPECT_EQ(mapped->leaves[1].key_kinds[1], KeyKind::kName);
  EXPECT_EQ(mapped->report.notes.size(), 1u);
  const auto renamed =
      MapLeaves(leaves, {}, {.renames = {{"list/(.*)", "l/\\1"}}});
  EXPECT_EQ(renamed->leaves[2].key_kinds[1], KeyKind::kIndex);
}

// Compares with a slow reference, which replaces prefixes and compares every
// pair of leaves.
TEST(LeafMap, RandomRenames) {
  std::mt19937 random(5);
  const auto key = [&] {
    std::vector<std::string> parts;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      parts.push_back(std::string(1, "abc"[random() % 3]));
    }
    return parts;
  };
  const auto joined = [](const std::vector<std::string>& parts) {
    std::string text;
    for (const auto& part : parts) text += (text.empty() ? "" : "/") + part;
    return text;
  };
  int good_count = 0, bad_count = 0;
  for (int round = 0; round < 3000; ++round) {
    std::set<std::vector<std::string>> keys;
    for (size_t n = 1 + random() % 4; n > 0; --n) {
      const auto one = key();
      bool fits = true;
      for (const auto& other : keys) {
        const std::string a = joined(one) + "/", b = joined(other) + "/";
        fits = fits && !a.starts_with(b) && !b.starts_with(a);
      }
      if (fits) keys.insert(one);
    }
    std::vector<LeafInfo> leaves;
    for (const auto& one : keys) leaves.push_back(LeafOf(one));
    LeafMap map;
    std::vector<std::pair<std::string, std::string>> prefixes;
    for (size_t n = random() % 3; n > 0; --n) {
      prefixes.push_back({joined(key()) + "/", joined(key()) + "/"});
      map.renames.push_back(
          {prefixes.back().first + "(.*)", prefixes.back().second + "\\1"});
    }
    std::vector<std::string> want;
    for (const LeafInfo& leaf : leaves) {
      std::string path = joined(leaf.key);
      for (const auto& [from, to] : prefixes) {
        if (!path.starts_with(from)) continue;
        path = to + path.substr(from.size());
        break;
      }
      want.push_back(path);
    }
    bool is_good = true;
    for (size_t i = 0; i < want.size(); ++i) {
      for (size_t k = 0; k < want.size(); ++k) {
        if (i != k && (want[i] + "/").starts_with(want[k] + "/")) {
          is_good = false;
        }
      }
    }
    const auto mapped = MapLeaves(leaves, {}, map);
    ASSERT_EQ(mapped.ok(), is_good) << round;
    ++(is_good ? good_count : bad_count);
    if (!is_good) continue;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(joined(mapped->leaves[i].key), want[i]) << round;
    }
  }
  EXPECT_GT(good_count, 1000);
  EXPECT_GT(bad_count, 50);
}

TEST(MapRules, Texts) {
  const auto rename = ParseRename(R"(a\=(.*)\.b=c=\1)");
  ASSERT_TRUE(rename.ok());
  EXPECT_EQ(rename->pattern, R"(a=(.*)\.b)");
  EXPECT_EQ(rename->replacement, R"(c=\1)");
  for (const char* bad : {"", "a", "=b", "a="}) {
    EXPECT_FALSE(ParseRename(bad).ok()) << bad;
  }
  const auto lines = ParseRenameTable("# old names\n\n a=b \r\nc/(.*)=d/\\1");
  ASSERT_TRUE(lines.ok());
  ASSERT_EQ(lines->size(), 2u);
  EXPECT_EQ((*lines)[0].replacement, "b");
  EXPECT_FALSE((*lines)[1].is_literal);
  EXPECT_THAT(std::string(ParseRenameTable("a=b\nc").status().message()),
              HasSubstr("line 2"));
  const auto json = ParseRenameTable(R"( {"a.(b": "c.\\1"})");
  ASSERT_TRUE(json.ok());
  EXPECT_TRUE((*json)[0].is_literal);
  EXPECT_EQ((*json)[0].pattern, "a.(b");
  EXPECT_FALSE(ParseRenameTable(R"({"a": 1})").ok());
  EXPECT_EQ(ParseCast("a=b.*=bfloat16")->glob, "a=b.*");
  EXPECT_FALSE(ParseCast("a=float3").ok());
  EXPECT_EQ(ParseShards("x.*=4,1")->part_counts, (Shape{4, 1}));
  for (const char* bad : {"x", "x=", "x=0", "x=1,", "x=1,,2", "=1", "x=1 "}) {
    EXPECT_FALSE(ParseShards(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace holdfast
