// convert and reshard with a fake library: what they request and what they
// print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/fake_checkpoint.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConvertVerb : public ::testing::Test {
 protected:
  void SetUp() override {
    ClearWorld();
    FakeCheckpoint c;
    c.info.format = "orbax";
    c.leaves = {
        ArrayLeaf<int32_t>("params.w", DType::kInt32, {4, 4},
                           std::vector<int32_t>(16)),
        ArrayLeaf<int32_t>("params.b", DType::kInt32, {4},
                           std::vector<int32_t>(4)),
        TextLeaf("name", ValueKind::kString, "hi"),
    };
    for (FakeLeaf& leaf : c.leaves) leaf.info.value_type = "jax.Array";
    PutCheckpoint("/c", c);
  }
};

TEST_F(ConvertVerb, LeavesWhatIsNotSaidToTheSource) {
  const Ran ran = RunWords({"convert", "/c", "/new"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "ok: 3 leaves, 3.0 MiB in 0.50 s (read 2.0 MiB, wrote 1.0 MiB, "
            "checked)\n");
  EXPECT_EQ(Calls().convert_target, "/new");
  const ConvertOptions& options = Calls().convert;
  EXPECT_FALSE(options.format || options.zarr_format || options.use_ocdbt);
  EXPECT_TRUE(options.names.empty());
  EXPECT_FALSE(options.overwrite);
  EXPECT_TRUE(options.check);
  EXPECT_FALSE(options.sharding);
  EXPECT_EQ(options.group, nullptr);
}

TEST_F(ConvertVerb, PassesOn) {
  const Ran ran = RunWords(
      {"convert", "--to=orbax-v1", "--zarr-format=3", "--ocdbt=no",
       "--compression=fast", "--chunk-bytes=1M", "--overwrite", "--no-compare",
       "--memory=1G", "-j3", "--json", "/c", "/new", "params.?"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const ConvertOptions& options = Calls().convert;
  EXPECT_EQ(options.format, Format::kOrbaxV1);
  EXPECT_EQ(options.zarr_format, 3);
  EXPECT_EQ(options.use_ocdbt, false);
  EXPECT_EQ(options.compression, Compression::kFast);
  EXPECT_EQ(options.chunk_bytes, 1u << 20);
  EXPECT_TRUE(options.overwrite);
  EXPECT_FALSE(options.check);
  EXPECT_EQ(options.run.memory_bytes, 1u << 30);
  EXPECT_EQ(options.run.threads, 3);
  EXPECT_THAT(options.names, ElementsAre("params.w", "params.b"));
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["checked"], false);
  EXPECT_EQ(json["written_bytes"], 1 << 20);
}

TEST_F(ConvertVerb, RefusesOtherFormatsByName) {
  const Ran other = RunWords({"convert", "--to=tar", "/c", "/new"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("got 'tar', want orbax, orbax-v1, "));
  EXPECT_EQ(RunWords({"convert", "/c"}).code, 2);
}

TEST_F(ConvertVerb, IsAnotherFormatToo) {
  EXPECT_EQ(RunWords({"convert", "--also=safetensors", "--data-file-bytes=1M",
                      "/c", "/new"})
                .code,
            0);
  EXPECT_NE(Calls().convert.also, nullptr);
  EXPECT_EQ(RunWords({"convert", "/c", "/new"}).code, 0);
  EXPECT_EQ(Calls().convert.also, nullptr);
  const Ran ran = RunWords({"convert", "--also=npz", "/c", "/new"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("got 'npz', want safetensors"));
}

TEST_F(ConvertVerb, TakesARecipe) {
  Ran ran = RunWords({"convert", "--map=demo", "--reverse", "--size=heads=8",
                      "--map=a=b", "/c", "/new"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const ConvertOptions& options = Calls().convert;
  ASSERT_TRUE(options.recipe.has_value());
  EXPECT_EQ(options.recipe->text(), "{\"recipe\": 1}");
  EXPECT_TRUE(options.recipe_options.reverse);
  EXPECT_EQ(options.recipe_options.sizes.at("heads"), 8);
  EXPECT_EQ(options.map.renames.size(), 1u);

  ran = RunWords({"convert", "--map=nowhere.json", "/c", "/new"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("no recipe is called nowhere.json"));
  EXPECT_EQ(RunWords({"convert", "--size=heads", "/c", "/new"}).code, 2);
  for (const char* verb : {"diff", "merge"}) {
    ran = RunWords({verb, "--map=demo", "/c", "/c", "/new"});
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr("takes no recipe"));
  }
  EXPECT_NE(RunWords({"convert", "--reverse", "/c", "/new"}).code, 0);

  ran = RunWords({"recipes"});
  EXPECT_EQ(ran.out, "demo\n    one name for another\n");
  EXPECT_EQ(RunWords({"recipes", "demo"}).out, "{\"recipe\": 1}\n");
  EXPECT_EQ(RunWords({"recipes", "other"}).code, 3);
}

TEST_F(ConvertVerb, ViewPassesOnAndTellsWhatIsCopied) {
  Ran ran =
      RunWords({"view", "--link=hard", "--checksums", "--no-copy",
                "--zarr-format=2", "--as=orbax-v1", "--map=demo", "/c", "/v"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const ViewOptions& options = Calls().view;
  EXPECT_EQ(options.link, LinkKind::kHard);
  EXPECT_TRUE(options.checksums);
  EXPECT_TRUE(options.must_refer);
  EXPECT_EQ(options.zarr_format, 2);
  EXPECT_EQ(options.format, Format::kOrbaxV1);
  EXPECT_TRUE(options.recipe.has_value());
  EXPECT_THAT(ran.out,
              HasSubstr("a: copied (5.0 KiB): compressed with zstd\nok: "));
  EXPECT_THAT(ran.out, HasSubstr("3.0 MiB of 1 file referred to in 0.5"));
  EXPECT_EQ(RunWords({"view", "--as=npz", "/c", "/v"}).code, 2);
  ran = RunWords({"view", "--json", "/c", "/v"});
  EXPECT_THAT(ran.out, HasSubstr("\"why\": \"compressed with zstd\""));
  EXPECT_EQ(Calls().view.zarr_format, 3);
  EXPECT_EQ(Calls().view.link, LinkKind::kSymbolic);
  EXPECT_EQ(RunWords({"view", "--as=safetensors", "/c", "/v"}).code, 0);
  EXPECT_EQ(Calls().view.format, Format::kSafetensors);
}

TEST_F(ConvertVerb, MaterializePassesOn) {
  Ran ran = RunWords(
      {"materialize", "--compression=planes", "--zarr-format=2", "/c"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Calls().convert_target, "");
  EXPECT_EQ(Calls().convert.compression, Compression::kPlanes);
  EXPECT_EQ(Calls().convert.zarr_format, 2);
  ran = RunWords({"materialize", "--json", "--overwrite", "/c", "/new"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Calls().convert_target, "/new");
  EXPECT_TRUE(Calls().convert.overwrite);
  EXPECT_THAT(ran.out, HasSubstr("\"target\": \"/new\""));
  EXPECT_EQ(RunWords({"materialize", "--map=demo", "/c"}).code, 2);
}

TEST_F(ConvertVerb, PassesRulesOn) {
  const std::string table = ::testing::TempDir() + "/holdfast_rename_table";
  std::ofstream(table) << "# names\nc=d\n";
  const Ran ran =
      RunWords({"convert", "--to=npz", "--map=a/(.*)=b/\\1",
                "--map-file=" + table, "--select=a", "--drop=b*", "--drop=c",
                "--cast=*=bfloat16", "--shards=w=4,1", "--nest", "--strict",
                "--restart", "--data-file-bytes=1G", "/c", "/new"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const ConvertOptions& options = Calls().convert;
  EXPECT_EQ(options.format, Format::kNpz);
  ASSERT_EQ(options.map.renames.size(), 2u);
  EXPECT_EQ(options.map.renames[0].replacement, "b/\\1");
  EXPECT_EQ(options.map.renames[1].pattern, "c");
  EXPECT_THAT(options.map.select, ElementsAre("a"));
  EXPECT_THAT(options.map.drop, ElementsAre("b*", "c"));
  EXPECT_EQ(options.map.casts[0].dtype, DType::kBfloat16);
  EXPECT_EQ(options.map.shards[0].part_counts, (Shape{4, 1}));
  EXPECT_TRUE(options.map.nest && options.map.is_strict && options.restart);
  EXPECT_EQ(options.shard_bytes_max, uint64_t{1} << 30);
  EXPECT_THAT(ran.out, HasSubstr("1 renamed, 1 left out; --report tells\n"));
  EXPECT_THAT(ran.err, HasSubstr("note: cast x=int8: matches no leaf\n"));
  const Ran told =
      RunWords({"convert", "--report=-", "--select=a", "/c", "/new"});
  EXPECT_THAT(told.out, HasSubstr("a -> b: renamed\nc: left out\n"));
  for (const char* bad : {"--map==b", "--cast=a=b", "--shards=x=0"}) {
    EXPECT_EQ(RunWords({"convert", bad, "/c", "/new"}).code, 2) << bad;
  }
  EXPECT_EQ(RunWords({"convert", "--map-file=/lost", "/c", "/new"}).code, 3);
  EXPECT_EQ(RunWords({"reshard", "--shards=w=4,1", "/c", "/new"}).code, 0);
}

TEST_F(ConvertVerb, FailsOnPatternsThatSelectNothing) {
  const Ran ran = RunWords({"convert", "/c", "/new", "nothing"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(Calls().convert_target, "");
}

TEST_F(ConvertVerb, ReshardLaysArraysOut) {
  EXPECT_EQ(RunWords({"reshard", "/c", "/new"}).code, 2);
  const Ran ran = RunWords({"reshard", "--mesh=x=2,y=2", "--spec=x,y",
                            "--spec=params.b=y", "/c", "/new"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_TRUE(Calls().convert.sharding);
  const auto checkpoint = Open("/c", {});
  ASSERT_TRUE(checkpoint.ok());
  const auto spec_of = [&](size_t leaf) {
    const auto sharding =
        Calls().convert.sharding((*checkpoint)->leaves()[leaf]);
    return std::get<NamedSharding>(**sharding).spec;
  };
  EXPECT_EQ(spec_of(0), (PartitionSpec{{"x"}, {"y"}}));
  EXPECT_EQ(spec_of(1), (PartitionSpec{{"y"}}));
}

}  // namespace
}  // namespace holdfast::testing
