// A user-defined leaf type, from save to restore: its handler stores a sparse
// matrix in a file.
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

struct SparseMatrix {
  int64_t row_count = 0;
  std::vector<std::pair<int64_t, float>> entries;

  bool operator==(const SparseMatrix&) const = default;
};

CommitFuture Done(Status status) {
  std::promise<Status> promise;
  promise.set_value(std::move(status));
  return promise.get_future().share();
}

// A record of the handler's calls.
struct Calls {
  std::vector<std::string> log;
  std::vector<ParamInfo> infos;
  std::vector<SaveArgs> save_args;
  std::vector<AnyRestoreArgs> restore_args;
  Status serialize_status;
};

class SparseHandler : public TypeHandler {
 public:
  explicit SparseHandler(Calls& calls) : calls_(calls) {}

  std::string typestr() const override { return "acme.Sparse"; }

  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override {
    std::vector<ValueMetadata> metadata;
    for (const ParamInfo& info : infos) {
      metadata.push_back(CustomMetadata{info.name, info.parent_dir, "sparse!"});
    }
    return metadata;
  }

  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) override {
    calls_.log.push_back("serialize " + std::to_string(values.size()));
    calls_.infos.assign(infos.begin(), infos.end());
    calls_.save_args.assign(args.begin(), args.end());
    if (!calls_.serialize_status.ok()) return calls_.serialize_status;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& matrix =
          std::any_cast<const SparseMatrix&>(values[i]->object());
      std::string text = std::to_string(matrix.row_count);
      for (const auto& [index, value] : matrix.entries) {
        text += " " + std::to_string(index) + " " + std::to_string(value);
      }
      WriteTestFile(infos[i].path() + ".sparse", text);
    }
    return std::vector{Done(Status())};
  }

  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override {
    calls_.log.push_back("deserialize " + std::to_string(infos.size()));
    calls_.restore_args.assign(args.begin(), args.end());
    std::vector<Tree> values;
    for (const ParamInfo& info : infos) {
      std::istringstream text(ReadTestFile(info.path() + ".sparse"));
      SparseMatrix matrix;
      text >> matrix.row_count;
      std::pair<int64_t, float> entry;
      while (text >> entry.first >> entry.second) {
        matrix.entries.push_back(entry);
      }
      values.push_back(Tree::Object(matrix));
    }
    return values;
  }

  Status Finalize(const std::string& directory) override {
    calls_.log.push_back("finalize");
    EXPECT_TRUE(std::filesystem::exists(directory));
    return Status();
  }

 private:
  Calls& calls_;
};

class CustomHandlerTest : public testing::Test {
 protected:
  CustomHandlerTest() : registry_(CreateTypeHandlerRegistry()) {
    EXPECT_TRUE(registry_
                    ->Add(LeafType::Of<SparseMatrix>(),
                          std::make_shared<SparseHandler>(calls_))
                    .ok());
  }

  PyTreeCheckpointHandlerOptions Options() const {
    PyTreeCheckpointHandlerOptions options;
    options.type_handler_registry = registry_;
    return options;
  }

  static SparseMatrix Matrix(float value) { return {10, {{3, value}}}; }
  static Tree Item() {
    return Tree::Dict(
        {{"a", Tree::Object(Matrix(1))},
         {"layers", Tree::List({Tree::Object(Matrix(2)), Tree(Iota({4}))})},
         {"step", Tree(7)}});
  }
  static SparseMatrix MatrixOf(const Tree& leaf) {
    return std::any_cast<SparseMatrix>(leaf.object());
  }

  Calls calls_;
  std::shared_ptr<TypeHandlerRegistry> registry_;
  const ScratchDirectory scratch_;
};

TEST_F(CustomHandlerTest, IsCalledOnceWithAllItsLeaves) {
  PyTreeSaveArgs save{.item = Item()};
  save.save_args["layers.0"].dtype = DType::kFloat16;
  save.ocdbt_target_data_file_size = 1000;
  const auto handler = MakeHandler(Options());
  const Status saved = handler->Save(scratch_.path(), save);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_THAT(calls_.log, ElementsAre("serialize 2", "finalize"));
  ASSERT_EQ(calls_.infos.size(), 2u);
  const ParamInfo& info = calls_.infos[1];
  EXPECT_EQ(info.name, "layers.0");
  EXPECT_EQ(info.parent_dir, scratch_.path());
  EXPECT_THAT(info.keypath, ElementsAre("layers", "0"));
  EXPECT_EQ(info.value_typestr, "acme.Sparse");
  EXPECT_EQ(info.ocdbt_target_data_file_size, 1000);
  EXPECT_FALSE(calls_.save_args[0].dtype);
  EXPECT_EQ(calls_.save_args[1].dtype, DType::kFloat16);
  EXPECT_THAT(
      ReadTestFile(scratch_ / "_METADATA"),
      HasSubstr(R"({"value_type": "acme.Sparse", "skip_deserialize": false})"));

  RestoreArgsMap restore_args;
  restore_args["a"] = RestoreArgs{.dtype = DType::kInt8};
  const auto restored =
      handler->Restore(scratch_.path(), RestoreOf(std::nullopt, restore_args));
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(calls_.log.back(), "deserialize 2");
  EXPECT_EQ(RestoreDType(calls_.restore_args[0]), DType::kInt8);
  EXPECT_EQ(MatrixOf(*restored->Find("a")), Matrix(1));
  EXPECT_EQ(MatrixOf(restored->Find("layers")->children()[0]), Matrix(2));
  EXPECT_EQ(restored->Find("layers")->children()[1], Tree(Iota({4})));
  EXPECT_EQ(*restored->Find("step"), Tree(7));
}

TEST_F(CustomHandlerTest, DescribesItsLeaves) {
  const auto handler = MakeHandler(Options());
  ASSERT_TRUE(handler->Save(scratch_.path(), {.item = Item()}).ok());
  const auto metadata = handler->Metadata(scratch_.path());
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  const ValueMetadata* a = metadata->Find({"a"});
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(std::get<CustomMetadata>(*a).typestr, "sparse!");
  const auto unknown = MakeHandler()->Metadata(scratch_.path());
  EXPECT_EQ(unknown.status().message(),
            "Unknown type: \"acme.Sparse\". Must register a TypeHandler.");
}

TEST_F(CustomHandlerTest, WithoutItTheLeafCannotBeRestored) {
  ASSERT_TRUE(
      MakeHandler(Options())->Save(scratch_.path(), {.item = Item()}).ok());
  const auto restored = MakeHandler()->Restore(scratch_.path());
  EXPECT_EQ(restored.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(restored.status().message()),
              HasSubstr("TypeHandler lookup failed for: type=acme.Sparse, "
                        "keypath=(DictKey(key='a'),)"));
}

TEST_F(CustomHandlerTest, NothingIsWrittenBeforeTheRestIsChecked) {
  Tree item = Item();
  item.Add("z", Tree(Floats({0}, {})));
  const auto handler = MakeHandler(Options());
  EXPECT_FALSE(handler->Save(scratch_.path(), {.item = item}).ok());
  EXPECT_TRUE(calls_.log.empty());
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(CustomHandlerTest, ItsFailureIsTheSaves) {
  calls_.serialize_status = ResourceExhaustedError("no room");
  const auto handler = MakeHandler(Options());
  const Status saved = handler->Save(scratch_.path(), {.item = Item()});
  EXPECT_EQ(saved.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "_METADATA"));
  EXPECT_FALSE(handler->AsyncSave(scratch_.path(), {.item = Item()}).ok());
}

// A user's handler for numpy arrays: it counts, and delegates the work to the
// standard handler.
class CountingNumpyHandler : public NumpyHandler {
 public:
  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) override {
    saved_count += values.size();
    return NumpyHandler::Serialize(values, infos, args);
  }
  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override {
    restored_count += infos.size();
    return NumpyHandler::Deserialize(infos, args);
  }

  size_t saved_count = 0;
  size_t restored_count = 0;
};

TEST_F(CustomHandlerTest, MayTakeAStandardTypeOver) {
  const auto counting = std::make_shared<CountingNumpyHandler>();
  ASSERT_TRUE(registry_
                  ->Add(LeafType{"np.ndarray"}, counting, {},
                        /*override_existing=*/true)
                  .ok());
  const Tree item = Tree::Dict({{"j", Tree::JaxArray(Iota({3}))},
                                {"n", Tree(3)},
                                {"w", Tree(Iota({40, 40}))}});
  const auto handler = MakeHandler(Options());
  const Status saved = handler->Save(scratch_.path(), {.item = item});
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_EQ(counting->saved_count, 1u);
  const auto restored = handler->Restore(scratch_.path());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, item);
  EXPECT_EQ(counting->restored_count, 1u);
  // The standard handlers read the same files.
  const auto others = MakeHandler()->Restore(scratch_.path());
  ASSERT_TRUE(others.ok()) << others.status().ToString();
  EXPECT_EQ(*others, item);
}

TEST_F(CustomHandlerTest, ASecondSaveReplacesTheFirst) {
  ASSERT_TRUE(registry_
                  ->Add(LeafType{"np.ndarray"},
                        std::make_shared<CountingNumpyHandler>(), {},
                        /*override_existing=*/true)
                  .ok());
  const auto handler = MakeHandler(Options());
  const Tree first = Tree::Dict({{"old", Tree(Iota({30, 30}))},
                                 {"step", Tree(1)},
                                 {"w", Tree(Iota({20, 20}))}});
  ASSERT_TRUE(handler->Save(scratch_.path(), {.item = first}).ok());
  const Tree second = Tree::Dict({{"w", Tree(Iota({2}))}});
  const Status saved = handler->Save(scratch_.path(), {.item = second});
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  const auto restored = handler->Restore(scratch_.path());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, second);
  const auto report = VerifyCheckpoint(Place(scratch_.path()));
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->damages.empty())
      << report->damages.front().status.ToString();
}

// A user's implementation, which gets every call except transforms.
class RecordingImpl : public BasePyTreeCheckpointHandler {
 public:
  Result<std::vector<CommitFuture>> AsyncSave(const std::string&,
                                              const PyTreeSaveArgs&) override {
    log.push_back("async_save");
    return std::vector<CommitFuture>();
  }
  Status Save(const std::string&, const PyTreeSaveArgs&) override {
    log.push_back("save");
    return Status();
  }
  Result<Tree> Restore(const std::string&,
                       const BasePyTreeRestoreArgs& args) override {
    log.push_back(args.partial_restore ? "restore partial" : "restore");
    return Tree(5);
  }
  Result<PyTreeMetadata> Metadata(const std::string&) override {
    log.push_back("metadata");
    return PyTreeMetadata();
  }
  Status Finalize(const std::string&) override {
    log.push_back("finalize");
    return Status();
  }
  void Close() override { log.push_back("close"); }

  std::vector<std::string> log;
};

TEST_F(CustomHandlerTest, AnImplementationOfTheCallersIsCalled) {
  ASSERT_TRUE(SaveTree(scratch_.path(), Tree::Dict({{"a", Tree(1)}})).ok());
  const auto impl = std::make_shared<RecordingImpl>();
  const auto handler = MakeHandler({.handler_impl = impl});
  EXPECT_TRUE(handler->Save("", {}).ok());
  EXPECT_TRUE(handler->AsyncSave("", {}).ok());
  PyTreeRestoreArgs args;
  args.partial_restore = true;
  EXPECT_EQ(*handler->Restore(scratch_.path(), args), Tree(5));
  EXPECT_TRUE(handler->Metadata("").ok());
  EXPECT_TRUE(handler->Finalize("").ok());
  handler->Close();
  EXPECT_THAT(impl->log, ElementsAre("save", "async_save", "restore partial",
                                     "metadata", "finalize", "close"));
}

}  // namespace
}  // namespace holdfast
