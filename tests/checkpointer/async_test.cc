// AsyncCheckpointer: what Save guarantees when it returns, and how the rest of
// the work ends.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpointer/handlers_for_test.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "twins/host_reader.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class AsyncTest : public testing::Test {
 protected:
  std::unique_ptr<AsyncCheckpointer> MakeHeld(AsyncOptions options = {}) {
    return Taken(AsyncCheckpointer::Make(held_, std::move(options)));
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "7";
  const std::shared_ptr<HeldHandler> held_ = std::make_shared<HeldHandler>();
};

// Arrays with one value each, in memory that a test overwrites.
class MutableArrays {
 public:
  explicit MutableArrays(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      memory_.emplace_back(5000, static_cast<float>(i));
    }
  }
  Array View(int64_t i) const {
    return Array::Borrow({DType::kFloat32,
                          reinterpret_cast<const char*>(memory_[i].data()),
                          {50, 100},
                          {400, 4}},
                         nullptr);
  }
  void Overwrite() {
    for (std::vector<float>& values : memory_) {
      std::fill(values.begin(), values.end(), -1.0f);
    }
  }

 private:
  std::vector<std::vector<float>> memory_;
};

bool AllAre(const Array& array, int64_t want) {
  const auto* data = reinterpret_cast<const float*>(array.view().data);
  for (int64_t i = 0; i < array.element_count(); ++i) {
    if (data[i] != static_cast<float>(want)) return false;
  }
  return array.element_count() > 0;
}

// Returns a tree with arrays 0 to count - 5 as leaves of both kinds, and one
// sharded array made of two more.
Tree StateOf(const MutableArrays& arrays, int64_t count) {
  std::vector<Tree::Member> members;
  for (int64_t i = 0; i + 4 < count; ++i) {
    members.emplace_back(
        "w" + std::to_string(i),
        i % 2 == 0 ? Tree(arrays.View(i)) : Tree::JaxArray(arrays.View(i)));
  }
  members.emplace_back("sharded",
                       Tree::ShardedArray({100, 100},
                                          {{{0, 0}, arrays.View(count - 4)},
                                           {{50, 0}, arrays.View(count - 3)}},
                                          std::make_shared<ArrayTraits>()));
  return Tree::Dict(std::move(members));
}

void CheckState(const std::string& path, int64_t count) {
  const Tree state = Load(path)->tree;
  ASSERT_EQ(state.size(), static_cast<size_t>(count - 3));
  for (int64_t i = 0; i + 4 < count; ++i) {
    EXPECT_TRUE(AllAre(state.Find("w" + std::to_string(i))->array(), i)) << i;
  }
  const auto rows = Taken(Open(path));
  const size_t leaf = *rows->Find("sharded");
  EXPECT_TRUE(AllAre(*rows->ReadBox(leaf, {0, 0}, {50, 100}), count - 4));
  EXPECT_TRUE(AllAre(*rows->ReadBox(leaf, {50, 0}, {50, 100}), count - 3));
}

Array OnlyArray(const std::string& path) {
  return Load(path)->tree.Find("checkpoint")->array();
}

// Saves all kinds of items, and overwrites everything that the caller owns as
// soon as the call returns.
TEST_F(AsyncTest, WhatIsSavedIsWhatWasThereWhenSaveReturned) {
  constexpr int64_t kCount = 200;
  MutableArrays arrays(kCount);
  const auto json = std::make_shared<JsonSave>(Tree::Dict({{"n", 1}}));
  const auto note = std::make_shared<NoteSave>("before");
  CompositeArgs args;
  args.items = {
      {"state", std::make_shared<PyTreeSave>(StateOf(arrays, kCount))},
      {"one", std::make_shared<ArraySave>(Tree(arrays.View(kCount - 2)))},
      {"key", std::make_shared<JaxRandomKeySave>(
                  Tree::JaxArray(arrays.View(kCount - 1)))},
      {"json", json},
      {"note", note}};
  CheckpointHandlerRegistry registry;
  ASSERT_TRUE(
      registry
          .Add(std::nullopt, typeid(NoteSave), std::make_shared<NoteHandler>())
          .ok());
  CompositeOptions composite;
  composite.registry = &registry;
  auto checkpointer = Taken(AsyncCheckpointer::Make(
      Taken(CompositeCheckpointHandler::Make(composite))));
  ASSERT_TRUE(checkpointer->Save(path_, args).ok());
  arrays.Overwrite();
  json->item = Tree::Dict({{"n", 2}});
  note->text = "after";
  const Status saved = checkpointer->WaitUntilFinished();
  ASSERT_TRUE(saved.ok()) << saved.ToString();

  CheckState(path_ + "/state", kCount);
  EXPECT_TRUE(AllAre(OnlyArray(path_ + "/one"), kCount - 2));
  EXPECT_TRUE(AllAre(OnlyArray(path_ + "/key/jax_random_key"), kCount - 1));
  EXPECT_EQ(ReadTestFile(path_ + "/json/metadata"), R"({"n": 1})");
  EXPECT_EQ(ReadTestFile(path_ + "/note/note"), "before");
  const auto report = Verify(path_);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty());
}

TEST_F(AsyncTest, StatesFollowTheSave) {
  auto checkpointer = MakeHeld();
  EXPECT_EQ(checkpointer->state(), SaveState::kNone);
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  EXPECT_EQ(checkpointer->state(), SaveState::kStaged);
  EXPECT_TRUE(checkpointer->IsSavingInProgress());
  EXPECT_TRUE(checkpointer->CheckForErrors().ok());
  EXPECT_FALSE(fs::exists(path_));
  held_->done.set_value(Status());
  EXPECT_TRUE(checkpointer->WaitUntilFinished().ok());
  EXPECT_EQ(checkpointer->state(), SaveState::kDurable);
  EXPECT_FALSE(checkpointer->IsSavingInProgress());
  EXPECT_EQ(ReadTestFile(path_ + "/note"), "x");
  EXPECT_EQ(checkpointer->Metadata(path_)->item_handlers.index(), 1u);
}

TEST_F(AsyncTest, AFailureIsToldOnceByTheNextCall) {
  auto checkpointer = MakeHeld();
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  held_->done.set_value(ResourceExhaustedError("disk full"));
  const Status told = checkpointer->Save(path_, NoteSave("y"));
  EXPECT_EQ(told.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(checkpointer->state(), SaveState::kFailed);
  EXPECT_TRUE(checkpointer->WaitUntilFinished().ok());
  EXPECT_TRUE(checkpointer->CheckForErrors().ok());
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("z")).ok());
  held_->done.set_value(Status());
  EXPECT_TRUE(checkpointer->Close().ok());
  EXPECT_EQ(ReadTestFile(path_ + "/note"), "z");
}

TEST_F(AsyncTest, FailuresToFinalizeAndToStageLeaveNothing) {
  auto checkpointer = MakeHeld();
  held_->finalize_status = DataLossError("bad rows");
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  held_->done.set_value(Status());
  EXPECT_EQ(checkpointer->Restore(path_).status().code(),
            StatusCode::kDataLoss);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
  held_->stage_status = InvalidArgumentError("no");
  EXPECT_EQ(checkpointer->Save(path_, NoteSave("x")).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(checkpointer->WaitUntilFinished().ok());
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(AsyncTest, AFailedOverwriteLeavesTheOldCheckpoint) {
  auto checkpointer = MakeHeld();
  ASSERT_TRUE(Save(path_, Tree::Dict({{"a", 1}})).ok());
  EXPECT_EQ(checkpointer->Save(path_, NoteSave("x")).message(),
            "Destination " + path_ + " already exists.");
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x"), {.force = true}).ok());
  held_->done.set_value(InternalError("no"));
  EXPECT_FALSE(checkpointer->WaitUntilFinished().ok());
  EXPECT_TRUE(Load(path_).ok());
}

TEST_F(AsyncTest, CancelStopsTheSaveAndIsNoError) {
  auto checkpointer = MakeHeld();
  held_->ends_when_cancelled = true;
  checkpointer->Cancel();  // nothing runs
  EXPECT_FALSE(held_->was_cancelled);
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  checkpointer->Cancel();
  EXPECT_TRUE(checkpointer->WaitUntilFinished().ok());
  EXPECT_TRUE(held_->was_cancelled);
  EXPECT_EQ(checkpointer->state(), SaveState::kCancelled);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

// The handler ignores the cancellation and succeeds, but the checkpoint must
// not appear.
TEST_F(AsyncTest, WhatIsCancelledIsNotCommitted) {
  auto checkpointer = MakeHeld();
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  checkpointer->Cancel();
  held_->done.set_value(Status());
  EXPECT_TRUE(checkpointer->WaitUntilFinished().ok());
  EXPECT_EQ(checkpointer->state(), SaveState::kCancelled);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(AsyncTest, AStuckHandlerMissesTheDeadline) {
  auto checkpointer = MakeHeld({.timeout_seconds = 0.05});
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  const Status late = checkpointer->WaitUntilFinished();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(), "save to " + path_ +
                                ": not finished within 0.05 seconds: phase "
                                "\"write\" is still running");
  EXPECT_TRUE(held_->was_cancelled);
  EXPECT_EQ(checkpointer->state(), SaveState::kFailed);
  EXPECT_TRUE(checkpointer->WaitUntilFinished().ok());  // reported only once
  EXPECT_EQ(checkpointer->Save(path_, NoteSave("y")).code(),
            StatusCode::kFailedPrecondition);  // the handler is still busy
  held_->done.set_value(Status());
  // The late save is not committed, and the checkpointer can be used again.
  Status saved;
  do {
    saved = checkpointer->Save(path_, NoteSave("z"));
  } while (saved.code() == StatusCode::kFailedPrecondition);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  held_->done.set_value(Status());
  (void)checkpointer->WaitUntilFinished();
  if (fs::exists(path_)) {
    EXPECT_EQ(ReadTestFile(path_ + "/note"), "z");
  }
}

TEST_F(AsyncTest, CheckForErrorsSeesTheDeadlineWithoutWaiting) {
  auto checkpointer = MakeHeld({.timeout_seconds = 1e-9});
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  EXPECT_EQ(checkpointer->CheckForErrors().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(checkpointer->IsSavingInProgress());
  held_->done.set_value(Status());
}

TEST_F(AsyncTest, RefusesTimeoutsThatAreNotPositive) {
  for (const double seconds : {0.0, -1.0, std::nan("")}) {
    EXPECT_EQ(AsyncCheckpointer::Make(held_, {.timeout_seconds = seconds})
                  .status()
                  .code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(AsyncTest, TheCallbackComesBeforeTheCheckpointIsVisible) {
  int call_count = 0;
  bool was_visible = false;
  AsyncOptions options;
  options.post_finalization_callback = [&] {
    ++call_count;
    was_visible = fs::exists(path_);
  };
  auto checkpointer =
      Taken(AsyncCheckpointer::Make(std::make_shared<NoteHandler>(), options));
  ASSERT_TRUE(checkpointer->Save(path_, NoteSave("x")).ok());
  ASSERT_TRUE(checkpointer->WaitUntilFinished().ok());
  EXPECT_EQ(call_count, 1);
  EXPECT_FALSE(was_visible);
  EXPECT_TRUE(fs::exists(path_));
}

TEST_F(AsyncTest, TheDestructorWaits) {
  auto checkpointer =
      Taken(AsyncCheckpointer::Make(Taken(MakePyTreeHandler())));
  // Copied by several threads, in pieces.
  PyTreeSave save(Tree::Dict({{"w", FloatArray({1001, 3001}, 0)}}));
  ASSERT_TRUE(checkpointer->Save(path_, save).ok());
  checkpointer.reset();
  EXPECT_TRUE(Verify(path_)->damages.empty());
  EXPECT_EQ(Taken(Load(path_)).tree, save.args.item);
}

// Elements that are read from a device may change once Save has returned, as
// those in host memory may.
TEST_F(AsyncTest, ALiveArrayMayChangeOnceSaveHasReturned) {
  const auto reader =
      std::make_shared<HostReader>(FloatArray({101, 31}, 0), /*is_live=*/true);
  const Tree before(FloatArray({101, 31}, 0));
  auto checkpointer =
      Taken(AsyncCheckpointer::Make(Taken(MakePyTreeHandler())));
  PyTreeSave save(Tree::Dict(
      {{"w", Tree::DeferredArray(DType::kFloat32, {101, 31}, reader)}}));
  ASSERT_TRUE(checkpointer->Save(path_, save).ok());
  const float changed = 7;
  FillStrided(reader->array().mutable_view(),
              reinterpret_cast<const char*>(&changed));
  ASSERT_TRUE(checkpointer->WaitUntilFinished().ok());
  const auto loaded = Taken(Load(path_));
  EXPECT_TRUE(*loaded.tree.Find("w") == before);
}

TEST_F(AsyncTest, ALiveShardMayChangeOnceSaveHasReturned) {
  const auto live = std::make_shared<HostReader>(FloatArray({40, 31}, 0),
                                                 /*is_live=*/true);
  const auto still = FloatArray({61, 31}, 5);
  const Tree before =
      Tree::ShardedArray(DType::kFloat32, {101, 31},
                         {{{0, 0}, FloatArray({40, 31}, 0)}, {{40, 0}, still}},
                         {}, ArrayKind::kNumpy);
  auto checkpointer =
      Taken(AsyncCheckpointer::Make(Taken(MakePyTreeHandler())));
  PyTreeSave save(Tree::Dict(
      {{"w", Tree::ShardedArray(
                 {101, 31},
                 {{{0, 0}, Array::Outline(DType::kFloat32, {40, 31}), live},
                  {{40, 0}, still}},
                 {})}}));
  ASSERT_TRUE(checkpointer->Save(path_, save).ok());
  const float changed = 7;
  FillStrided(live->array().mutable_view(),
              reinterpret_cast<const char*>(&changed));
  ASSERT_TRUE(checkpointer->WaitUntilFinished().ok());
  const Tree loaded = Taken(Load(path_)).tree;
  EXPECT_TRUE(Tree(loaded.Find("w")->array()) == before);
}

TEST_F(AsyncTest, AClosedCheckpointerRefuses) {
  auto checkpointer = MakeHeld();
  EXPECT_TRUE(checkpointer->Close().ok());
  EXPECT_EQ(checkpointer->Save(path_, NoteSave("x")).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(checkpointer->Close().ok());
}

}  // namespace
}  // namespace holdfast
