// CompositeCheckpointHandler, registries, item handlers, Checkpointer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>

#include "checkpointer/handlers_for_test.h"
#include "stores/place/directory_ops.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

using HandlerPtr = std::shared_ptr<CheckpointHandler>;

class CompositeTest : public testing::Test {
 protected:
  static std::shared_ptr<CompositeCheckpointHandler> MakeComposite(
      CompositeOptions options = {}) {
    return Taken(CompositeCheckpointHandler::Make(std::move(options)));
  }
  static std::unique_ptr<Checkpointer> MakeCheckpointer(
      HandlerPtr handler, CheckpointerOptions options = {}) {
    return Taken(Checkpointer::Make(std::move(handler), std::move(options)));
  }
  // Removes the metadata and its trace in the list of checksums.
  static void ForgetMetadata(const std::string& path) {
    fs::remove(path + "/_CHECKPOINT_METADATA");
    fs::remove(path + "/_HOLDFAST_DIGESTS");
  }
  static CompositeArgs StateAndMeta() {
    CompositeArgs args;
    args.items["state"] = std::make_shared<StandardSave>(state_);
    args.items["meta"] = std::make_shared<JsonSave>(Tree::Dict({{"epoch", 3}}));
    return args;
  }

  static inline const Tree state_ =
      Tree::Dict({{"w", FloatArray({4, 3}, 1)}, {"step", 7}});
  ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "7";
};

TEST_F(CompositeTest, ItemsComeBackByTheirTypes) {
  auto saver = MakeCheckpointer(MakeComposite());
  ASSERT_TRUE(
      saver->Save(path_, StateAndMeta(), {.custom_metadata = R"({"k": 2})"})
          .ok());
  // Another composite without registered items restores by the recorded types.
  auto reader = MakeCheckpointer(MakeComposite());
  const Tree all = Taken(reader->Restore(path_));
  EXPECT_EQ(
      all, Tree::Dict({{"meta", Tree::Dict({{"epoch", 3}})},
                       {"state", Tree::Dict({{"step", 7},
                                             {"w", FloatArray({4, 3}, 1)}})}}));
  CompositeArgs one;
  one.items["meta"] = std::make_shared<JsonRestore>();
  EXPECT_EQ(Taken(reader->Restore(path_, &one)),
            Tree::Dict({{"meta", Tree::Dict({{"epoch", 3}})}}));
  const StepMetadata metadata = Taken(reader->Metadata(path_));
  const auto& types = std::get<StepMetadata::ItemTypes>(metadata.item_handlers);
  EXPECT_EQ(types.at("state"),
            "orbax.checkpoint._src.handlers.standard_checkpoint_handler."
            "StandardCheckpointHandler");
  EXPECT_EQ(types.at("meta"),
            "orbax.checkpoint._src.handlers.json_checkpoint_handler."
            "JsonCheckpointHandler");
  EXPECT_EQ(metadata.custom_metadata, R"({"k": 2})");
  EXPECT_TRUE(metadata.item_metadata.at("state").has_value());
  EXPECT_FALSE(metadata.item_metadata.at("meta").has_value());
  EXPECT_LE(*metadata.init_timestamp_ns, *metadata.commit_timestamp_ns);
}

// A part that was changed or removed after the save is never silently left out.
TEST_F(CompositeTest, DamageBesideTheArraysIsSeen) {
  auto saver = MakeCheckpointer(MakeComposite());
  ASSERT_TRUE(
      saver->Save(path_, StateAndMeta(), {.custom_metadata = R"({"k": 2})"})
          .ok());
  const std::string document = path_ + "/meta/metadata";
  WriteTestFile(document, R"({"epoch": 4})");
  auto reader = MakeCheckpointer(MakeComposite());
  Status status = reader->Restore(path_).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(status.message(), testing::HasSubstr("meta/metadata"));
  WriteTestFile(document, R"({"epoch": 3})");
  EXPECT_TRUE(reader->Restore(path_).ok());
  fs::rename(path_ + "/meta", scratch_ / "aside");
  status = reader->Restore(path_).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(status.message(), testing::HasSubstr("item \"meta\""));
  fs::rename(scratch_ / "aside", path_ + "/meta");
  const std::string metadata = path_ + "/_CHECKPOINT_METADATA";
  std::string text = ReadTestFile(metadata);
  const size_t place = text.find(R"("k": 2)");
  ASSERT_NE(place, std::string::npos);
  WriteTestFile(metadata, text.replace(place, 6, R"("k": 3)"));
  EXPECT_EQ(reader->Metadata(path_).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(reader->Restore(path_).status().code(), StatusCode::kDataLoss);
}

TEST_F(CompositeTest, FilesAndMarkersAreOrbaxs) {
  auto saver = MakeCheckpointer(MakeComposite());
  CompositeArgs args = StateAndMeta();
  args.items["a"] = std::make_shared<ArraySave>(Tree(FloatArray({2}, 0)));
  args.items["p"] = std::make_shared<ProtoSave>("x: 1\n");
  args.items["np"] = std::make_shared<NumpyRandomKeySave>(
      Tree::Tuple({"MT19937", FloatArray({3}, 0), 624, 0, 0.0}));
  ASSERT_TRUE(saver->Save(path_, args).ok());
  EXPECT_EQ(ReadTestFile(path_ + "/commit_success.txt"),
            "Checkpoint commit was successful to " + path_ +
                "\nIts checksums are in _HOLDFAST_DIGESTS");
  EXPECT_EQ(ReadTestFile(path_ + "/meta/commit_success.txt"),
            "Checkpoint commit was successful to " + path_ +
                ".orbax-checkpoint-tmp/meta");
  EXPECT_EQ(ReadTestFile(path_ + "/p/proto.pbtxt"), "x: 1\n");
  EXPECT_TRUE(fs::exists(path_ + "/a/checkpoint/.zarray"));
  EXPECT_EQ(ReadTestFile(path_ + "/np/np_random_key_metadata/metadata"),
            R"({"legacy": true})");
  const Tree all = Taken(saver->Restore(path_));
  EXPECT_EQ(*all.Find("a"), Tree(FloatArray({2}, 0)));
  EXPECT_EQ(*all.Find("p"), Tree("x: 1\n"));
  EXPECT_EQ(*all.Find("np"),
            Tree::Tuple({"MT19937", FloatArray({3}, 0), 624, 0, 0.0}));
  const auto report = Verify(path_);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty());
  EXPECT_TRUE(report->notes.empty()) << report->notes[0];
  // A changed byte is found in any file, including those of items.
  for (const char* name :
       {"/p/proto.pbtxt", "/meta/metadata", "/state/_METADATA",
        "/commit_success.txt", "/np/np_random_key_metadata/metadata"}) {
    std::string text = ReadTestFile(path_ + name);
    const std::string whole = text;
    text[0] ^= 1;
    WriteTestFile(path_ + name, text);
    EXPECT_FALSE(Verify(path_)->damages.empty()) << name;
    WriteTestFile(path_ + name, whole);
  }
}

TEST_F(CompositeTest, RandomKeysComeBackAsKeys) {
  auto traits = std::make_shared<ArrayTraits>();
  traits->prng_impl = "rbg";
  const Array data = FloatArray({4}, 0);
  CompositeArgs args;
  args.items["typed"] =
      std::make_shared<JaxRandomKeySave>(Tree::JaxArray(data, traits));
  args.items["raw"] = std::make_shared<JaxRandomKeySave>(Tree::JaxArray(data));
  const Tree dict = Tree::Dict(
      {{"bit_generator", "PCG64"}, {"state", Tree::Dict({{"inc", 5}})}});
  args.items["np"] = std::make_shared<NumpyRandomKeySave>(dict);
  auto saver = MakeCheckpointer(MakeComposite());
  ASSERT_TRUE(saver->Save(path_, args).ok());
  const Tree all = Taken(saver->Restore(path_));
  // Orbax loses the implementation as well.
  EXPECT_EQ(all.Find("typed")->array_traits().prng_impl, "threefry2x32");
  EXPECT_EQ(all.Find("raw")->array_traits().prng_impl, "");
  EXPECT_EQ(all.Find("raw")->array_kind(), ArrayKind::kJax);
  EXPECT_EQ(*all.Find("np"), dict);
  args.items = {{"x", std::make_shared<JaxRandomKeySave>(Tree(data))}};
  EXPECT_EQ(saver->Save(scratch_ / "8", args).message(),
            "item x: Unsupported type: <class 'numpy.ndarray'>.");
}

TEST_F(CompositeTest, RefusesInOrbaxsWords) {
  auto saver = MakeCheckpointer(MakeComposite());
  ASSERT_TRUE(saver->Save(path_, StateAndMeta()).ok());
  CompositeArgs args;
  args.items["x"] = std::make_shared<JsonRestore>();
  EXPECT_EQ(saver->Restore(path_, &args).status().ToString(),
            "NOT_FOUND: Item \"x\" was not found in the checkpoint. Available "
            "items: ['meta', 'state']");
  ForgetMetadata(path_);
  auto stranger = MakeCheckpointer(MakeComposite());
  EXPECT_EQ(stranger->Restore(path_).status().ToString(),
            "INVALID_ARGUMENT: Item \"meta\" was found in the checkpoint, but "
            "could not be restored. Please provide a "
            "`CheckpointHandlerRegistry`, or call `restore` with an "
            "appropriate `CheckpointArgs` subclass.");
  args.items = {{"meta", std::make_shared<JsonRestore>()}};
  EXPECT_TRUE(stranger->Restore(path_, &args).ok());
  EXPECT_EQ(stranger->Restore(scratch_ / "none").status().message(),
            "Checkpoint at " + (scratch_ / "none") + " not found.");
  fs::create_directories(scratch_ / "8.orbax-checkpoint-tmp");
  EXPECT_EQ(
      stranger->Restore(scratch_ / "8.orbax-checkpoint-tmp").status().message(),
      "Found incomplete checkpoint at " +
          (scratch_ / "8.orbax-checkpoint-tmp") + ".");
  for (const char* name : {"", "__x", "a/b", "..", "_METADATA"}) {
    args.items = {{name, std::make_shared<JsonSave>(Tree::Dict())}};
    EXPECT_EQ(saver->Save(scratch_ / "8", args).code(),
              StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(saver->Save(scratch_ / "8", CompositeArgs()).message(),
            "finalize() called before any items were saved.");
  EXPECT_FALSE(fs::exists(scratch_ / "8"));
}

TEST_F(CompositeTest, AUsersHandlerByRegistryAndGlobally) {
  CompositeArgs args;
  args.items["note"] = std::make_shared<NoteSave>("hello");
  auto saver = MakeCheckpointer(MakeComposite());
  const Status unknown = saver->Save(path_, args);
  EXPECT_EQ(unknown.message(),
            "Unable to find registered `CheckpointHandler` for "
            "holdfast::NoteSave. Use `register_with_handler`.");

  CheckpointHandlerRegistry registry;
  const HandlerPtr handler = std::make_shared<NoteHandler>();
  ASSERT_TRUE(registry.Add("note", typeid(NoteSave), handler).ok());
  EXPECT_EQ(registry.Add("note", typeid(NoteSave), handler).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.Get("other", typeid(NoteSave)).status().ToString(),
            "NOT_FOUND: No entry for item=other and args_ty=holdfast::NoteSave "
            "in the registry.");
  EXPECT_EQ(registry.Add("note", typeid(NoteRestore)).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(registry.Add("note", typeid(NoteRestore), handler).ok());
  CompositeOptions options;
  options.registry = &registry;
  auto by_registry = MakeCheckpointer(MakeComposite(options));
  ASSERT_TRUE(by_registry->Save(path_, args).ok());
  CompositeArgs restore;
  auto with_prefix = std::make_shared<NoteRestore>();
  with_prefix->prefix = "> ";
  restore.items["note"] = with_prefix;
  EXPECT_EQ(*Taken(by_registry->Restore(path_, &restore)).Find("note"),
            Tree("> hello"));
  EXPECT_EQ(*Taken(by_registry->Restore(path_)).Find("note"), Tree("hello"));
  EXPECT_FALSE(MakeCheckpointer(MakeComposite())->Restore(path_).ok());

  const CheckpointHandlerType type = {
      "acme.NoteHandler", [] { return std::make_shared<NoteHandler>(); }};
  EXPECT_EQ(RegisterCheckpointArgs(CheckpointArgsType::Of<NoteSave>(), type,
                                   false, false)
                .message(),
            "`for_save` and `for_restore` cannot both be False.");
  ASSERT_TRUE(RegisterCheckpointArgs(CheckpointArgsType::Of<NoteSave>(), type,
                                     true, false)
                  .ok());
  ASSERT_TRUE(RegisterCheckpointArgs(CheckpointArgsType::Of<NoteRestore>(),
                                     type, false, true)
                  .ok());
  EXPECT_EQ(
      *Taken(MakeCheckpointer(MakeComposite())->Restore(path_)).Find("note"),
      Tree("hello"));
  EXPECT_TRUE(
      MakeCheckpointer(MakeComposite())->Save(scratch_ / "8", args).ok());
  EXPECT_EQ(RegisterCheckpointArgs(CheckpointArgsType::Of<NoteSave>(),
                                   {"acme.NoteHandler",
                                    []() -> HandlerPtr {
                                      return std::make_shared<HeldHandler>();
                                    }},
                                   true, false)
                .code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CompositeTest, AnItemHasOneHandler) {
  auto saver = MakeCheckpointer(MakeComposite());
  ASSERT_TRUE(saver->Save(path_, StateAndMeta()).ok());
  CompositeArgs args;
  args.items["meta"] = std::make_shared<ProtoSave>("x");
  const Status refused = saver->Save(scratch_ / "8", args);
  EXPECT_NE(
      refused.message().find("does not match with any registered handler!"),
      std::string::npos)
      << refused.ToString();
  CompositeOptions options;
  options.item_names = {"state"};
  auto limited = MakeCheckpointer(MakeComposite(options));
  EXPECT_FALSE(limited->Save(scratch_ / "8", StateAndMeta()).ok());
}

TEST_F(CompositeTest, OneItemAloneAndStepLayouts) {
  auto single = MakeCheckpointer(Taken(MakeStandardHandler()));
  ASSERT_TRUE(single->Save(path_, StandardSave(state_)).ok());
  EXPECT_EQ(Taken(single->Restore(path_)), Taken(Load(path_)).tree);
  EXPECT_EQ(std::get<std::string>(Taken(single->Metadata(path_)).item_handlers),
            "orbax.checkpoint._src.handlers.standard_checkpoint_handler."
            "StandardCheckpointHandler");
  EXPECT_TRUE(Verify(path_)->damages.empty());
  EXPECT_EQ(Taken(GetStepLayout(path_)), StepLayout::kFlat);
  ForgetMetadata(path_);
  EXPECT_EQ(Taken(GetStepLayout(path_)), StepLayout::kFlat);
  CompositeArgs args;
  args.items["default"] = std::make_shared<StandardSave>(state_);
  auto composite = MakeCheckpointer(MakeComposite());
  ASSERT_TRUE(composite->Save(scratch_ / "8", args).ok());
  EXPECT_EQ(Taken(GetStepLayout(scratch_ / "8")), StepLayout::kDefaultItem);
  ASSERT_TRUE(composite->Save(scratch_ / "9", StateAndMeta()).ok());
  EXPECT_EQ(Taken(GetStepLayout(scratch_ / "9")), StepLayout::kComposite);
  ForgetMetadata(scratch_ / "9");
  EXPECT_EQ(Taken(GetStepLayout(scratch_ / "9")), StepLayout::kComposite);
  EXPECT_EQ(GetStepLayout(scratch_ / "none").status().code(),
            StatusCode::kNotFound);
}

TEST_F(CompositeTest, StandardRefusesAndCasts) {
  auto single = MakeCheckpointer(Taken(MakeStandardHandler()));
  EXPECT_EQ(single->Save(path_, StandardSave()).message(),
            "Must provide item to save.");
  EXPECT_EQ(single->Save(path_, StandardSave(Tree(3))).message(),
            "StandardCheckpointHandler / StandardSave does not support single "
            "arrays or scalars. Use ArrayCheckpointHandler / ArraySave");
  EXPECT_EQ(
      single
          ->Save(path_,
                 StandardSave(Tree::Dict({{"a", Tree::Dict({{"b", "text"}})}})))
          .message(),
      "Unsupported type: <class 'str'> for key: ('a', 'b').");
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(single->Save(path_, StandardSave(state_)).ok());
  const Array halves = *Array::Allocate(DType::kBfloat16, {4, 3});
  StandardRestore restore(Tree::Dict({{"w", halves}, {"step", Tree(1.5)}}));
  const Tree tree = Taken(single->Restore(path_, &restore));
  EXPECT_EQ(tree.Find("w")->array_dtype(), DType::kBfloat16);
  EXPECT_EQ(*tree.Find("step"), Tree(7.0));
  // Jax arrays also take the shape and sharding of the target.
  auto larger = std::make_shared<ArrayTraits>();
  restore.item = Tree::Dict(
      {{"w", Tree::JaxArray(FloatArray({5, 3}, 0), larger)}, {"step", 0}});
  EXPECT_FALSE(single->Restore(path_, &restore).ok());
  restore.strict = false;
  EXPECT_EQ(Taken(single->Restore(path_, &restore)).Find("w")->array_shape(),
            (Shape{5, 3}));
}

TEST_F(CompositeTest, JsonTextIsPythonsAndComesBack) {
  const Tree value =
      Tree::Dict({{"s", "h\xc3\xa9"},
                  {"l", Tree::List({1, 2.5, true, Tree::None(), 1e16})},
                  {"big", Tree(Scalar::Of(DType::kUint64, ~uint64_t{0}, true))},
                  {"inf", std::numeric_limits<double>::infinity()},
                  {"d", Tree::Dict()}});
  const std::string text = Taken(JsonTextOf(value));
  EXPECT_EQ(text,
            "{\"s\": \"h\\u00e9\", \"l\": [1, 2.5, true, null, 1e+16], "
            "\"big\": 18446744073709551615, \"inf\": Infinity, \"d\": {}}");
  EXPECT_EQ(Taken(TreeOfJsonText(text)), value);
  EXPECT_EQ(JsonTextOf(Tree(FloatArray({1}, 0))).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(TreeOfJsonText("{\"a\": ").status().code(), StatusCode::kDataLoss);
}

TEST_F(CompositeTest, MarkerModeAndPermissionsReachEveryItem) {
  CheckpointerOptions options;
  options.commit_mode = CommitMode::kMarkerFile;
  options.directory_mode = 0750;
  CompositeOptions composite;
  composite.directory_mode = 0750;
  auto saver = MakeCheckpointer(MakeComposite(composite), options);
  ASSERT_TRUE(saver->Save(path_, StateAndMeta()).ok());
  EXPECT_EQ(ReadTestFile(path_ + "/meta/commit_success.txt"),
            "Checkpoint commit was successful to " + path_ + "/meta");
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (!entry.is_directory()) continue;
    EXPECT_EQ(entry.status().permissions(), static_cast<fs::perms>(0750))
        << entry.path();
  }
  EXPECT_TRUE(saver->Restore(path_).ok());
  fs::remove(path_ + "/commit_success.txt");
  EXPECT_EQ(saver->Restore(path_).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(CompositeTest, RanksSaveOneCheckpoint) {
  constexpr int64_t kRanks = 3;
  const auto transports = MakeThreadTransports(kRanks);
  std::vector<Status> statuses(kRanks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = MakeProcessGroup(transports[rank], {.timeout_seconds = 30});
      MultiprocessingOptions processes;
      processes.group = group.get();
      auto traits = std::make_shared<ArrayTraits>();
      traits->write_shape = {2, 4};
      traits->sharding_json = "";
      CompositeOptions composite;
      composite.multiprocessing_options = processes;
      composite.handlers["state"] =
          Taken(MakePyTreeHandler({.multiprocessing_options = processes}));
      composite.handlers["meta"] =
          MakeJsonHandler({.multiprocessing_options = processes});
      CompositeArgs args;
      args.items["state"] = std::make_shared<PyTreeSave>(Tree::Dict(
          {{"w", Tree::ShardedArray(
                     DType::kFloat32, {2 * kRanks, 4},
                     {{{2 * rank, 0},
                       FloatArray({2, 4}, static_cast<float>(8 * rank))}},
                     traits)}}));
      args.items["meta"] =
          std::make_shared<JsonSave>(Tree::Dict({{"epoch", 3}}));
      CheckpointerOptions options;
      options.multiprocessing_options = processes;
      auto saver = Taken(AsyncCheckpointer::Make(
          Taken(CompositeCheckpointHandler::Make(composite)), {}, options));
      statuses[rank] = saver->Save(path_, args);
      const Status ended = saver->WaitUntilFinished();
      if (statuses[rank].ok()) statuses[rank] = ended;
      // One failing rank stops all.
      if (rank == 1) args.items["bad"] = std::make_shared<UnknownSave>();
      const Status begun = saver->Save(scratch_ / "8", args);
      EXPECT_EQ(begun.ok(), rank != 1);
      EXPECT_EQ(saver->WaitUntilFinished().ok(), rank == 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  const Tree tree = Load(path_ + "/state")->tree;
  EXPECT_EQ(Tree(tree.Find("w")->array()),
            Tree(FloatArray({2 * kRanks, 4}, 0)));
  EXPECT_TRUE(Verify(path_)->damages.empty());
  EXPECT_FALSE(fs::exists(scratch_ / "8"));
  EXPECT_FALSE(fs::exists(scratch_ / "8.orbax-checkpoint-tmp"));
}

}  // namespace
}  // namespace holdfast
