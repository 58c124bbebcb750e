// Saves with every option, and restores without arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/checkpoint/opened_checkpoint.h"
#include "holdfast/checkpoint.h"
#include "orbax/pytree/pytree_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tree State() {
  return Tree::Dict({
      {"bf", Tree::JaxArray(CastTo(Iota({4, 3}), DType::kBfloat16))},
      {"empty", Tree::Dict()},
      {"list", Tree::List({Tree(1), Tree(2.5), Tree(true)})},
      {"name", Tree("model")},
      {"none", Tree::None()},
      {"w", Tree(Iota({6, 8}))},
  });
}

TEST(SaveRestore, EveryLayoutGivesTheTreeBack) {
  for (const bool use_ocdbt : {true, false}) {
    for (const bool use_zarr3 : {true, false}) {
      for (const bool use_compression : {true, false}) {
        const ScratchDirectory scratch;
        const auto handler = MakeHandler({.use_ocdbt = use_ocdbt,
                                          .use_zarr3 = use_zarr3,
                                          .use_compression = use_compression});
        ASSERT_TRUE(handler->Save(scratch.path(), {.item = State()}).ok());
        ASSERT_TRUE(handler->Finalize(scratch.path()).ok());
        const auto restored = handler->Restore(scratch.path());
        ASSERT_TRUE(restored.ok()) << restored.status().ToString();
        EXPECT_EQ(*restored, State());
        const auto opened = OpenCheckpoint(Place(scratch.path()));
        ASSERT_TRUE(opened.ok());
        EXPECT_EQ((*opened)->info().use_ocdbt, use_ocdbt);
        EXPECT_EQ((*opened)->info().zarr_format, use_zarr3 ? 3 : 2);
        const LeafInfo& w = (*opened)->leaves()[*(*opened)->Find("w")];
        EXPECT_EQ(w.codecs.find("zstd") != std::string::npos, use_compression)
            << w.codecs;
      }
    }
  }
}

TEST(SaveRestore, SaveArgsDecideHowALeafIsStored) {
  const ScratchDirectory scratch;
  const auto handler = MakeHandler();
  PyTreeSaveArgs args{.item = State()};
  args.save_args["w"] = {.dtype = DType::kFloat16, .chunk_byte_size = 16};
  args.custom_metadata = R"({"lr": 0.5})";
  ASSERT_TRUE(handler->Save(scratch.path(), args).ok());
  const auto opened = OpenCheckpoint(Place(scratch.path()));
  ASSERT_TRUE(opened.ok());
  const LeafInfo& w = (*opened)->leaves()[*(*opened)->Find("w")];
  EXPECT_EQ(w.dtype, DType::kFloat16);
  EXPECT_LE(ElementCount(w.chunk_shape) * 2, 16);
  EXPECT_EQ((*opened)->info().item_custom_metadata, R"({"lr": 0.5})");
}

TEST(SaveRestore, AChunkIsAsOrbaxCutsIt) {
  const ScratchDirectory scratch;
  const Array big = Iota({3000, 1000});  // 12 MB
  ASSERT_TRUE(SaveTree(scratch.path(), Tree::Dict({{"big", big}})).ok());
  const auto opened = OpenCheckpoint(Place(scratch.path()));
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT((*opened)->leaves()[0].chunk_shape, ElementsAre(3000, 1000));
}

TEST(SaveRestore, DataFilesAreClosedAtTheirSize) {
  const ScratchDirectory scratch;
  Tree item = Tree::Dict();
  for (int i = 0; i < 8; ++i) item.Add(std::to_string(i), Iota({1000}));
  PyTreeSaveArgs args{.item = item};
  args.ocdbt_target_data_file_size = 8000;
  ASSERT_TRUE(
      MakeHandler({.use_compression = false})->Save(scratch.path(), args).ok());
  int file_count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(scratch / "ocdbt.process_0/d")) {
    EXPECT_LE(file.file_size(), 12000u);
    ++file_count;
  }
  EXPECT_GE(file_count, 4);
}

TEST(SaveRestore, ASecondSaveReplacesTheFirst) {
  const ScratchDirectory scratch;
  ASSERT_TRUE(SaveTree(scratch.path(), State()).ok());
  const Tree other = Tree::Dict({{"a", Tree(7)}});
  ASSERT_TRUE(SaveTree(scratch.path(), other).ok());
  const auto restored = MakeHandler()->Restore(scratch.path());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, other);
}

TEST(SaveRestore, AsyncSaveTakesASnapshot) {
  const ScratchDirectory scratch;
  std::vector<float> memory(6, 1.0f);
  const Array borrowed = Array::Borrow(
      {DType::kFloat32, reinterpret_cast<char*>(memory.data()), {6}, {4}}, {});
  const auto traits = std::make_shared<const ArrayTraits>(
      ArrayTraits{.sharding_json = ShardingToJson(Rows(2))});
  const Array part = Array::Borrow(
      {DType::kFloat32, reinterpret_cast<char*>(memory.data()), {3}, {4}}, {});
  const Tree item = Tree::Dict(
      {{"a", borrowed},
       {"s", Tree::ShardedArray({6}, {{{0}, part}, {{3}, part}}, traits)}});
  std::vector<std::string> asked;
  const auto handler = MakeHandler(
      {.is_prioritized_key_fn = [&](const std::vector<std::string>& keypath) {
        asked.push_back(keypath.front());
        return keypath.front() == "s";
      }});
  const auto futures = handler->AsyncSave(scratch.path(), {.item = item});
  ASSERT_TRUE(futures.ok()) << futures.status().ToString();
  memory.assign(6, 9.0f);
  for (const CommitFuture& future : *futures) {
    ASSERT_TRUE(future.get().ok()) << future.get().ToString();
  }
  EXPECT_THAT(asked, ElementsAre("a", "s"));
  const auto restored = handler->Restore(scratch.path());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_THAT(Elements(restored->Find("a")->array()),
              ElementsAre(1, 1, 1, 1, 1, 1));
  ASSERT_EQ(restored->Find("s")->shards().size(), 2u);
  EXPECT_THAT(Elements(restored->Find("s")->shards()[1].array),
              ElementsAre(1, 1, 1));
}

TEST(SaveRestore, ACopyBeyondItsBoundIsWrittenAtOnceInstead) {
  const ScratchDirectory scratch;
  const auto handler =
      MakeHandler({.save_device_host_concurrent_gb = ConcurrentGb(1e-6)});
  const auto futures = handler->AsyncSave(
      scratch.path(), {.item = Tree::Dict({{"w", Iota({1000})}})});
  ASSERT_TRUE(futures.ok());
  // The item is complete before anyone has waited.
  EXPECT_TRUE(std::filesystem::exists(scratch / "_METADATA"));
  for (const CommitFuture& future : *futures) EXPECT_TRUE(future.get().ok());
}

TEST(SaveRestore, CloseWaitsForWhatWasBegun) {
  const ScratchDirectory scratch;
  const auto handler = MakeHandler();
  ASSERT_TRUE(handler->AsyncSave(scratch.path(), {.item = State()}).ok());
  handler->Close();
  EXPECT_TRUE(std::filesystem::exists(scratch / "_METADATA"));
}

TEST(SaveRestore, RichTypesComeBack) {
  const ScratchDirectory scratch;
  const Tree item = Tree::Dict(
      {{"e", Tree::List()},
       {"j", Tree::JaxArray(Iota({2}))},
       {"l", Tree::List({Tree(1), Tree::Dict()})},
       {"n", Tree::None()},
       {"t", Tree::Tuple({Tree(Iota({2})),
                          Tree::NamedTuple("acme.opt", "P",
                                           {{"nu", Tree(Iota({3}))},
                                            {"mu", Tree::None()}})})}});
  PyTreeCheckpointHandlerOptions rich;
  rich.pytree_metadata_options.support_rich_types = true;
  ASSERT_TRUE(SaveTree(scratch.path(), item, rich).ok());
  const auto restored = MakeHandler(rich)->Restore(scratch.path());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, item);
  EXPECT_THAT(
      ReadTestFile(scratch / "_METADATA"),
      HasSubstr(
          R"("value_metadata_tree": "{\"e\": {\"category\": \"custom\", \"clazz\": \"ValueMetadataEntry\", \"data\": {\"value_type\": \"List\", \"skip_deserialize\": true}}, \"j\": {\"category\": \"custom\", \"clazz\": \"ValueMetadataEntry\", \"data\": {\"value_type\": \"jax.Array\", \"skip_deserialize\": false, \"write_shape\": [2]}})"));
  // A handler without rich types reads these files, too.
  const auto plain = MakeHandler()->Restore(scratch.path());
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_EQ(plain->Find("t")->kind(), NodeKind::kList);
  EXPECT_EQ(plain->Find("t")->children()[1].kind(), NodeKind::kDict);
}

// `_METADATA` says that arrays are in a database, so the message does not look
// for directories.
TEST(SaveRestore, ALostDatabaseIsNamedAsOrbaxNamesIt) {
  const ScratchDirectory scratch;
  ASSERT_TRUE(
      SaveTree(scratch.path(), Tree::Dict({{"w", Tree(Iota({2}))}})).ok());
  for (const char* file : {"manifest.ocdbt", "_HOLDFAST_DIGESTS"}) {
    std::filesystem::remove(scratch / file);
  }
  // With the processes' parts, the item would count as an unfinished save.
  std::filesystem::remove_all(scratch / "ocdbt.process_0");
  EXPECT_EQ(MakeHandler()->Restore(scratch.path()).status().ToString(),
            "INVALID_ARGUMENT: NOT_FOUND: Error opening \"zarr\" driver: "
            "Metadata at \"w/.zarray\" in OCDBT database at local file \"" +
                scratch.path() + "/\" does not exist");
}

struct Refusal {
  PyTreeSaveArgs args;
  std::string message;
};

TEST(SaveRestore, RefusesBeforeItWrites) {
  const Tree item = Tree::Dict({{"w", Iota({2})}});
  PyTreeSaveArgs negative{.item = item};
  negative.ocdbt_target_data_file_size = -1;
  PyTreeSaveArgs unknown{.item = item};
  unknown.save_args["v"] = {};
  PyTreeSaveArgs not_json{.item = item};
  not_json.custom_metadata = "{";
  const std::vector<Refusal> refusals = {
      {{.item = Tree::None()}, "Found empty item."},
      {{.item = Tree::Dict()}, "Found empty item."},
      {negative,
       "OCDBT target_data_file_size must be >= 0, where 0 means no limit; got "
       "-1"},
      {unknown, "v"},
      {not_json, "custom_metadata must be the text of a JSON object"},
      {{.item = Tree::Dict({{"a", Tree::Object(3)}})},
       "TypeHandler lookup failed for: type="},
      {{.item = Tree::Dict({{"z", Tree(Floats({0}, {}))}})},
       "Cannot save arrays with zero size: ParamInfo: "
       "[name=z,value_typestr=np.ndarray]"},
  };
  for (const Refusal& refusal : refusals) {
    const ScratchDirectory scratch;
    const Status status = MakeHandler()->Save(scratch.path(), refusal.args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << refusal.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusal.message));
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << refusal.message;
  }
  const Status relative = MakeHandler()->Save("ckpt", {.item = item});
  EXPECT_EQ(relative.message(), "Checkpoint path should be absolute. Got ckpt");
}

}  // namespace
}  // namespace holdfast
