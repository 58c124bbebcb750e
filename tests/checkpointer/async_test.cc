// AsyncCheckpointer: what Save guarantees when it returns, and how the rest
// ends.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpointer/handlers_for_test.h"
#include "storage/scratch_directory.h"

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

// All kinds of items at once; everything that the caller owns is overwritten
// right after the call.
TEST_F(AsyncTest, WhatIsSavedIsWhatWasThereWhenSaveReturned) {
  const int64_t kCount = 200;
  std::vector<std::vector<float>> memory;
  std::vector<Tree::Member> members, shards_of;
  for (int64_t i = 0; i < kCount; ++i) {
    memory.emplace_back(5000, static_cast<float>(i));
  }
  const auto view_of = [&](int64_t i) {
    return Array::Borrow({DType::kFloat32,
                          reinterpret_cast<const char*>(memory[i].data()),
                          {50, 100},
                          {400, 4}},
                         nullptr);
  };
  for (int64_t i = 0; i + 4 < kCount; ++i) {
    members.emplace_back(
        "w" + std::to_string(i),
        i % 2 == 0 ? Tree(view_of(i)) : Tree::JaxArray(view_of(i)));
  }
  members.emplace_back("sharded",
                       Tree::ShardedArray({100, 100},
                                          {{{0, 0}, view_of(kCount - 4)},
                                           {{50, 0}, view_of(kCount - 3)}},
                                          std::make_shared<ArrayTraits>()));
  CompositeArgs args;
  args.items["state"] =
      std::make_shared<PyTreeSave>(Tree::Dict(std::move(members)));
  args.items["one"] = std::make_shared<ArraySave>(Tree(view_of(kCount - 2)));
  args.items["key"] =
      std::make_shared<JaxRandomKeySave>(Tree::JaxArray(view_of(kCount - 1)));
  auto json = std::make_shared<JsonSave>(Tree::Dict({{"n", 1}}));
  args.items["json"] = json;
  auto note = std::make_shared<NoteSave>("before");
  CompositeOptions composite;
  CheckpointHandlerRegistry registry;
  ASSERT_TRUE(
      registry
          .Add(std::nullopt, typeid(NoteSave), std::make_shared<NoteHandler>())
          .ok());
  composite.registry = &registry;
  args.items["note"] = note;

  auto checkpointer = Taken(AsyncCheckpointer::Make(
      Taken(CompositeCheckpointHandler::Make(composite))));
  ASSERT_TRUE(checkpointer->Save(path_, args).ok());
  for (std::vector<float>& values : memory) {
    std::fill(values.begin(), values.end(), -1.0f);
  }
  json->item = Tree::Dict({{"n", 2}});
  note->text = "after";
  const Status saved = checkpointer->WaitUntilFinished();
  ASSERT_TRUE(saved.ok()) << saved.ToString();

  const auto all_are = [](const Array& array, float want) {
    const auto* data = reinterpret_cast<const float*>(array.view().data);
    for (int64_t i = 0; i < array.element_count(); ++i) {
      if (data[i] != want) return false;
    }
    return array.element_count() > 0;
  };
  const Tree state = Load(path_ + "/state")->tree;
  ASSERT_EQ(state.size(), static_cast<size_t>(kCount - 3));
  for (int64_t i = 0; i + 4 < kCount; ++i) {
    EXPECT_TRUE(all_are(state.Find("w" + std::to_string(i))->array(),
                        static_cast<float>(i)))
        << i;
  }
  const auto rows = Open(path_ + "/state");
  const size_t leaf = *(*rows)->Find("sharded");
  EXPECT_TRUE(all_are(*(*rows)->ReadBox(leaf, {0, 0}, {50, 100}), kCount - 4));
  EXPECT_TRUE(all_are(*(*rows)->ReadBox(leaf, {50, 0}, {50, 100}), kCount - 3));
  EXPECT_TRUE(all_are(Load(path_ + "/one")->tree.Find("checkpoint")->array(),
                      kCount - 2));
  EXPECT_TRUE(all_are(
      Load(path_ + "/key/jax_random_key")->tree.Find("checkpoint")->array(),
      kCount - 1));
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

// The handler does not listen, and succeeds; the checkpoint must not appear.
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
  EXPECT_TRUE(checkpointer->WaitUntilFinished().ok());  // told once
  EXPECT_EQ(checkpointer->Save(path_, NoteSave("y")).code(),
            StatusCode::kFailedPrecondition);  // the handler is not free
  held_->done.set_value(Status());
  // It never becomes a checkpoint, and the checkpointer is of use again.
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
  PyTreeSave save(Tree::Dict({{"w", FloatArray({1000, 100}, 0)}}));
  ASSERT_TRUE(checkpointer->Save(path_, save).ok());
  checkpointer.reset();
  EXPECT_TRUE(Verify(path_)->damages.empty());
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
