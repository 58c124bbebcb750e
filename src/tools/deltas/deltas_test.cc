// Chains of deltas: every kind of leaf and change, every reader, bases that
// were deleted, changed or from another run, damage anywhere, and followers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "checkpoint/test_trees.h"
#include "engine/references/referrers.h"
#include "ground/tensor/box.h"
#include "holdfast/checkpoint.h"
#include "holdfast/delta.h"
#include "holdfast/pending_save.h"
#include "holdfast/steps/steps.h"
#include "tools/deltas/choose_base.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Returns the array with some of its elements changed slightly.
Array Changed(const Array& array, int per_mille, uint64_t seed) {
  std::mt19937_64 random(seed);
  const size_t bytes = array.byte_count();
  std::string elements(array.view().data, bytes);
  const size_t each = DTypeBytes(array.dtype());
  for (size_t at = 0; at < bytes; at += each) {
    if (static_cast<int>(random() % 1000) >= per_mille) continue;
    elements[at] = static_cast<char>(elements[at] ^ (1 + random() % 3));
  }
  return Array::FromBytes(array.dtype(), array.shape(), elements.data());
}

Result<std::string> ChosenPath(const std::string& step, uint64_t anchor_every) {
  auto chosen = ChooseBase(step, "", anchor_every);
  if (!chosen.ok()) return chosen.status();
  return chosen->path;
}

struct Change {
  int per_mille = 20;
  bool has_extra = false;  // adds an array that other steps do not have
};

// The steps of a run, in order. "big" has several chunks.
class SomeRun {
 public:
  SomeRun() {
    arrays_["w"] = RandomArray(DType::kBfloat16, {300, 200}, 1);
    arrays_["f"] = RandomArray(DType::kFloat32, {50, 30}, 2);
    arrays_["i"] = RandomArray(DType::kInt64, {1000}, 3);
    arrays_["c"] = RandomArray(DType::kComplex64, {40, 3}, 4);
    arrays_["frozen"] = RandomArray(DType::kFloat16, {64, 64}, 5);
    arrays_["scalar"] = RandomArray(DType::kFloat32, {}, 6);
    arrays_["big"] = RandomArray(DType::kBfloat16, {5, 1 << 20}, 7);
  }

  Tree Next(const Change& change) {
    ++step_;
    for (auto& [name, array] : arrays_) {
      if (name == "frozen" || name == "extra") continue;
      array = holdfast::Changed(array, change.per_mille,
                                static_cast<uint64_t>(step_));
    }
    arrays_.erase("extra");
    if (change.has_extra) {
      arrays_["extra"] = RandomArray(DType::kFloat32, {100}, 100);
    }
    std::vector<Tree> list = {Tree(arrays_["f"]), Tree::None(), Tree("text")};
    std::vector<Tree::Member> members = {
        {"layers", Tree::List(std::move(list))},
        {"step", Tree(int64_t{step_})},
        {"rate", Tree(0.5 / step_)},
        {"empty", Tree::Dict()}};
    for (const auto& [name, array] : arrays_) {
      if (name != "f") members.emplace_back(name, Tree(array));
    }
    return Tree::Dict(std::move(members));
  }

 private:
  std::map<std::string, Array> arrays_;
  int64_t step_ = 0;
};

class ChainTest : public ::testing::Test {
 protected:
  std::string Path(int64_t step) const {
    return directory_.path() + "/run/" + std::to_string(step);
  }
  std::string Root() const { return directory_.path() + "/run"; }

  // Saves an anchor, and a delta for each change, each made from the previous
  // step.
  void SaveChain(const std::vector<Change>& changes) {
    trees_ = {run_.Next({})};
    ASSERT_TRUE(Save(Path(0), trees_[0]).ok());
    for (const Change& change : changes) {
      const auto step = static_cast<int64_t>(trees_.size());
      trees_.push_back(run_.Next(change));
      const auto saved = SaveDelta(Path(step), trees_.back(), Path(step - 1));
      ASSERT_TRUE(saved.ok()) << saved.status().ToString();
      EXPECT_EQ(saved->order, static_cast<uint64_t>(step));
    }
  }

  // Expects that Load returns the same tree as for a full save of the step.
  void ExpectLoads(int64_t step) {
    const auto loaded = Load(Path(step));
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    const auto want = SavedAndLoaded(trees_[step]);
    EXPECT_TRUE(loaded->tree == want) << step;
  }

  Tree SavedAndLoaded(const Tree& tree) {
    const std::string path = directory_.path() + "/plain";
    SaveOptions save;
    save.overwrite = true;
    EXPECT_TRUE(Save(path, tree, save).ok());
    auto loaded = Load(path);
    EXPECT_TRUE(loaded.ok());
    return loaded->tree;
  }

  ScratchDirectory directory_;
  SomeRun run_;
  std::vector<Tree> trees_;
};

TEST_F(ChainTest, EveryStepComesBackHoweverMuchChanged) {
  SaveChain({{0}, {1}, {20, true}, {600}, {1000, true}, {20}});
  for (int64_t step = 0; step < 7; ++step) {
    ExpectLoads(step);
    const auto verified = Verify(Path(step));
    ASSERT_TRUE(verified.ok());
    EXPECT_TRUE(verified->damages.empty())
        << verified->damages[0].leaf << verified->damages[0].status.ToString();
  }
}

TEST_F(ChainTest, ADeltaIsSmallAndAnOrdinaryCheckpointOfBytes) {
  SaveChain({{10}});
  OpenOptions raw;
  raw.use_sidecar = false;
  const auto opened = Open(Path(1), raw);
  ASSERT_TRUE(opened.ok());
  uint64_t bytes = 0;
  for (const LeafInfo& leaf : (*opened)->leaves()) {
    EXPECT_EQ(leaf.dtype, DType::kUint8) << leaf.name;
    EXPECT_NE(leaf.name, "frozen");
    bytes += static_cast<uint64_t>(ElementCount(leaf.shape));
  }
  EXPECT_LT(bytes, 5 * (uint64_t{1} << 20) * 2 / 20);
  const auto seen = Open(Path(1));
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ((*seen)->info().format, "delta");
  EXPECT_EQ((*seen)->info().bases, std::vector<std::string>{Path(0)});
}

TEST_F(ChainTest, SlicesAndCastsAreThoseOfTheWhole) {
  SaveChain({{20}, {20}, {300}});
  const auto opened = Open(Path(3));
  ASSERT_TRUE(opened.ok());
  for (const std::string name : {"w", "big", "layers.0", "frozen"}) {
    const auto whole = (*opened)->Read(name);
    ASSERT_TRUE(whole.ok());
    std::mt19937_64 random(8);
    for (int trial = 0; trial < 10; ++trial) {
      Shape origin, shape;
      for (const int64_t extent : whole->shape()) {
        origin.push_back(static_cast<int64_t>(random() % extent));
        shape.push_back(
            1 + static_cast<int64_t>(random() % (extent - origin.back())));
      }
      const auto part = (*opened)->ReadBox(name, origin, shape);
      ASSERT_TRUE(part.ok()) << part.status().ToString();
      const Array want =
          Array::Borrow(Subview(whole->view(), Box{origin, shape}), nullptr);
      EXPECT_TRUE(Tree(*part) == Tree(want)) << name;
    }
  }
}

TEST_F(ChainTest, ABaseThatIsGoneOrAnotherStepIsNamed) {
  SaveChain({{20}, {20}});
  fs::rename(Path(1), Path(1) + "x");
  auto loaded = Load(Path(2));
  EXPECT_EQ(loaded.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(loaded.status().message(), HasSubstr(Path(1)));
  // Another delta with the same name.
  ASSERT_TRUE(SaveDelta(Path(1), run_.Next({}), Path(0)).ok());
  loaded = Load(Path(2));
  EXPECT_EQ(loaded.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(loaded.status().message(), HasSubstr("is not the step"));
  fs::remove_all(Path(1));
  fs::rename(Path(1) + "x", Path(1));
  ExpectLoads(2);
  // The anchor is written again, with the same elements.
  fs::remove_all(Path(0));
  ASSERT_TRUE(Save(Path(0), trees_[0]).ok());
  for (const int64_t step : {1, 2}) {
    EXPECT_EQ(Load(Path(step)).status().code(),
              StatusCode::kFailedPrecondition);
    const auto verified = Verify(Path(step));
    ASSERT_TRUE(verified.ok());
    ASSERT_EQ(verified->damages.size(), 1U);
    EXPECT_EQ(verified->damages[0].status.code(),
              StatusCode::kFailedPrecondition);
  }
}

TEST_F(ChainTest, AStepThatHasMovedWithItsBaseIsRead) {
  SaveChain({{20}, {20}});
  fs::rename(Root(), Root() + "-moved");
  const auto loaded = Load(Root() + "-moved/2");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == SavedAndLoaded(trees_[2]));
}

// A manager's steps have several items, some of which are deltas.
TEST_F(ChainTest, ItemsOfStepsAreDeltas) {
  std::vector<Tree> others;
  for (int64_t step = 0; step < 5; ++step) {
    trees_.push_back(run_.Next({20, step == 2}));
    others.push_back(
        Tree::Dict({{"v", RandomArray(DType::kFloat32, {20, 30}, 40)},
                    {"n", Tree(step)}}));
    auto pending = PendingSave::Begin(Path(step), {});
    ASSERT_TRUE(pending.ok());
    const std::string directory = (*pending)->directory();
    for (const bool is_other : {false, true}) {
      if (is_other && step == 3) continue;  // this step has no such item
      const std::string name = is_other ? "other" : "default";
      const auto saved = SaveItemInChain(
          directory + "/" + name, is_other ? others.back() : trees_.back(), 4);
      ASSERT_TRUE(saved.ok()) << saved.status().ToString();
      // Step 3 has no "other", so step 4 has no base for its "other".
      const bool is_whole = is_other && step == 4;
      EXPECT_EQ(saved->order, is_whole ? 0U : static_cast<uint64_t>(step % 4));
      ASSERT_TRUE((*pending)->AdoptItem(name).ok());
    }
    ASSERT_TRUE((*pending)->WriteFile("metrics/metrics", "{\"loss\": 1}").ok());
    ASSERT_TRUE((*pending)->Commit({}).ok());
  }
  for (int64_t step = 0; step < 5; ++step) {
    const Tree tree = SavedAndLoaded(trees_[step]);
    const auto by_step = Load(Path(step));
    ASSERT_TRUE(by_step.ok()) << by_step.status().ToString();
    EXPECT_TRUE(*by_step->tree.Find("default") == tree) << step;
    EXPECT_EQ(by_step->tree.Find("metrics") != nullptr, true);
    EXPECT_EQ(by_step->tree.Find("other") != nullptr, step != 3);
    const auto by_item = Load(Path(step) + "/default");
    ASSERT_TRUE(by_item.ok()) << by_item.status().ToString();
    EXPECT_TRUE(by_item->tree == tree) << step;
    const auto verified = Verify(Path(step));
    ASSERT_TRUE(verified.ok());
    EXPECT_TRUE(verified->damages.empty());
  }
  const auto needed = NeededByOthers(Place(Root()), {"0", "1", "2"});
  ASSERT_TRUE(needed.ok());
  EXPECT_EQ(needed->size(), 3U);
  fs::rename(Path(1), Path(1) + "x");
  EXPECT_EQ(Load(Path(3)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Load(Path(2) + "/other").status().code(), StatusCode::kNotFound);
}

TEST_F(ChainTest, WhatADeltaCannotBeIsRefused) {
  SaveChain({});
  const Tree tree = run_.Next({});
  SaveOptions over;
  over.overwrite = true;
  EXPECT_EQ(SaveDelta(Path(0), tree, Path(0), over).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(SaveDelta(Path(1), tree, Path(7)).status().code(),
            StatusCode::kNotFound);
  SaveOptions v1;
  v1.format = Format::kOrbaxV1;
  EXPECT_EQ(SaveDelta(Path(1), tree, Path(0), v1).status().code(),
            StatusCode::kInvalidArgument);
  SaveOptions args;
  args.save_args["none"] = SaveArgs();
  EXPECT_EQ(SaveDelta(Path(1), tree, Path(0), args).status().code(),
            StatusCode::kInvalidArgument);
  SaveOptions packed, cut, summed;
  packed.compression = Compression::kFast;
  cut.chunk_bytes = 1000;
  summed.fingerprints = true;
  for (const SaveOptions& of_whole_steps : {packed, cut, summed}) {
    EXPECT_EQ(SaveDelta(Path(1), tree, Path(0), of_whole_steps).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(fs::exists(Path(1)));
  ASSERT_TRUE(SaveDelta(Path(1), tree, Path(0)).ok());
  EXPECT_EQ(SaveDelta(Path(1), tree, Path(0)).status().code(),
            StatusCode::kAlreadyExists);
}

TEST_F(ChainTest, FlipsAnywhereInAChainNeverGiveWrongElements) {
  SaveChain({{20}, {20}});
  const Tree want = SavedAndLoaded(trees_[2]);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(Root())) {
    if (entry.is_regular_file() && entry.file_size() > 0) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::mt19937_64 random(17);
  int failed = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const fs::path& file = files[random() % files.size()];
    const std::string bytes = BytesOf(file);
    std::string bad = bytes;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(file, std::ios::binary) << bad;
    const auto loaded = Load(Path(2));
    if (loaded.ok()) {
      ASSERT_TRUE(loaded->tree == want) << file;
    } else {
      ++failed;
    }
    std::ofstream(file, std::ios::binary) << bytes;
  }
  EXPECT_GT(failed, 30);
  ExpectLoads(2);
}

TEST_F(ChainTest, StepsThatADeltaNeedsAreNotPruned) {
  SaveChain({{20}, {20}});
  ASSERT_TRUE(Save(Path(3), run_.Next({})).ok());
  PruneOptions options;
  options.keep = {{"--keep", LatestN{2}}};
  const auto plan = PlanPrune(Root(), options);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->rows.size(), 4U);
  EXPECT_EQ(plan->rows[0].kept_by, std::vector<std::string>{"the delta 1"});
  EXPECT_EQ(plan->rows[1].kept_by, std::vector<std::string>{"the delta 2"});
  const auto disposed = DisposeOfSteps(Root(), {"0", "1"});
  ASSERT_TRUE(disposed.ok());
  EXPECT_EQ(disposed->needed, (std::vector<std::string>{"0", "1"}));
  ExpectLoads(2);
  ASSERT_TRUE(DisposeOfSteps(Root(), {"0", "1", "2"}).ok());
  EXPECT_FALSE(fs::exists(Path(0)));
}

TEST_F(ChainTest, PatchesLeadFromTheBaseToTheResult) {
  SaveChain({{20}, {50, true}});
  const auto base = Open(Path(1));
  const auto next = Open(Path(2));
  ASSERT_TRUE(base.ok() && next.ok());
  std::vector<std::string> names;
  const Status read = ReadPatches(Path(2), [&](ArrayPatch patch) {
    names.push_back(patch.name);
    const auto want = (*next)->Read(patch.name);
    const size_t each = DTypeBytes(want->dtype());
    std::string elements(want->byte_count(), '\0');
    const auto old = (*base)->Read(patch.name);
    if (old.ok()) elements.assign(old->view().data, old->byte_count());
    EXPECT_TRUE(std::ranges::is_sorted(patch.indices));
    for (size_t i = 0; i < patch.indices.size(); ++i) {
      std::memcpy(&elements[patch.indices[i] * each],
                  patch.values.view().data + i * each, each);
    }
    EXPECT_EQ(elements, std::string(want->view().data, want->byte_count()))
        << patch.name;
    return Status();
  });
  ASSERT_TRUE(read.ok()) << read.ToString();
  EXPECT_THAT(names, ::testing::IsSupersetOf({"big", "extra", "i", "w"}));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("frozen")));
  EXPECT_EQ(ReadPatches(Path(0), [](ArrayPatch) { return Status(); }).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(ChainTest, WholeStepsComeOnceInSoMany) {
  EXPECT_EQ(*ChosenPath(Path(0), 3), "");
  SaveChain({{1}});
  EXPECT_EQ(*ChosenPath(Path(2), 3), Path(1));
  EXPECT_EQ(*ChosenPath(Path(2), 2), "");
  // The step that is overwritten cannot be its own base.
  EXPECT_EQ(*ChosenPath(Path(1), 2), Path(0));
  fs::remove_all(Path(0));
  EXPECT_EQ(*ChosenPath(Path(2), 3), "");
  EXPECT_EQ(ChosenPath(Path(2), 0).status().code(),
            StatusCode::kInvalidArgument);
}

class FollowerTest : public ChainTest {
 protected:
  void Follow() {
    for (auto& [name, memory] : memory_) {
      targets_.push_back({name, memory.mutable_view()});
    }
    follower_.emplace(Root(), targets_);
  }

  void ExpectHolds(int64_t step) {
    const auto opened = Open(Path(step));
    ASSERT_TRUE(opened.ok());
    for (const Follower::Target& target : targets_) {
      const auto want = (*opened)->Read(target.name);
      ASSERT_TRUE(want.ok());
      EXPECT_EQ(std::memcmp(want->view().data, target.memory.data,
                            want->byte_count()),
                0)
          << target.name << " of step " << step;
    }
  }

  std::string Memory() const {
    std::string all;
    for (const Follower::Target& target : targets_) {
      all.append(target.memory.data,
                 static_cast<size_t>(ElementCount(target.memory.shape)) *
                     DTypeBytes(target.memory.dtype));
    }
    return all;
  }

  static Array Zeros(DType dtype, const Shape& shape) {
    Array array = *Array::Allocate(dtype, shape);
    std::memset(array.mutable_view().data, 0, array.byte_count());
    return array;
  }

  std::map<std::string, Array> memory_ = {
      {"big", Zeros(DType::kBfloat16, {5, 1 << 20})},
      {"frozen", Zeros(DType::kFloat16, {64, 64})},
      {"w", Zeros(DType::kBfloat16, {300, 200})}};
  std::vector<Follower::Target> targets_;
  std::optional<Follower> follower_;
};

TEST_F(FollowerTest, TakesDeltasOneByOneAndSeveralAtOnce) {
  SaveChain({});
  Follow();
  auto update = follower_->Poll();
  ASSERT_TRUE(update.ok() && *update) << update.status().ToString();
  EXPECT_EQ((*update)->delta_count, 0U);
  ExpectHolds(0);
  update = follower_->Poll();
  ASSERT_TRUE(update.ok());
  EXPECT_FALSE(update->has_value());
  ASSERT_TRUE(SaveDelta(Path(1), run_.Next({20}), Path(0)).ok());
  update = follower_->Poll();
  ASSERT_TRUE(update.ok() && *update) << update.status().ToString();
  EXPECT_EQ((*update)->delta_count, 1U);
  EXPECT_EQ((*update)->changed, (std::vector<std::string>{"big", "w"}));
  ExpectHolds(1);
  for (int64_t step = 2; step < 6; ++step) {
    ASSERT_TRUE(SaveDelta(Path(step), run_.Next({20}), Path(step - 1)).ok());
  }
  update = follower_->Poll();
  ASSERT_TRUE(update.ok() && *update) << update.status().ToString();
  EXPECT_EQ((*update)->delta_count, 4U);
  EXPECT_EQ(follower_->step(), 5);
  ExpectHolds(5);
}

TEST_F(FollowerTest, FallsBackToTheWholeStepWhereTheChainBeginsAnew) {
  SaveChain({{20}});
  Follow();
  ASSERT_TRUE(follower_->Poll().ok());
  ASSERT_TRUE(Save(Path(2), run_.Next({20})).ok());
  ASSERT_TRUE(SaveDelta(Path(3), run_.Next({20}), Path(2)).ok());
  const auto update = follower_->Poll();
  ASSERT_TRUE(update.ok() && *update) << update.status().ToString();
  EXPECT_EQ((*update)->delta_count, 0U);
  ExpectHolds(3);
  fs::remove_all(Path(2));
  ASSERT_TRUE(Save(Path(4), run_.Next({20})).ok());
  ASSERT_TRUE(follower_->Poll().ok());
  ExpectHolds(4);
}

TEST_F(FollowerTest, FailuresLeaveMemoryAsItWas) {
  SaveChain({{20}});
  Follow();
  ASSERT_TRUE(follower_->Poll().ok());
  // Memory no longer holds the step, so the delta does not fit, and the
  // complete step is read.
  memory_.at("w").mutable_view().data[100] ^= 1;
  ASSERT_TRUE(SaveDelta(Path(2), run_.Next({20}), Path(1)).ok());
  const auto mended = follower_->Poll();
  ASSERT_TRUE(mended.ok() && *mended) << mended.status().ToString();
  EXPECT_EQ((*mended)->delta_count, 0U);
  ExpectHolds(2);
  // Flips a byte in each file of the delta in turn.
  ASSERT_TRUE(SaveDelta(Path(3), run_.Next({20}), Path(2)).ok());
  const std::string whole = Memory();
  for (const auto& entry : fs::recursive_directory_iterator(Path(3))) {
    if (!entry.is_regular_file() || entry.file_size() < 1000) continue;
    const std::string bytes = BytesOf(entry.path());
    std::string bad = bytes;
    bad[bad.size() / 2] ^= 4;
    std::ofstream(entry.path(), std::ios::binary) << bad;
    EXPECT_FALSE(follower_->Poll().ok()) << entry.path();
    EXPECT_EQ(Memory(), whole);
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  EXPECT_EQ(follower_->step(), 2);
  ASSERT_TRUE(follower_->Poll().ok());
  ExpectHolds(3);
}

TEST_F(FollowerTest, MemoryOfAnotherShapeIsRefused) {
  SaveChain({});
  memory_.insert_or_assign("w", Zeros(DType::kBfloat16, {200, 300}));
  Follow();
  EXPECT_EQ(follower_->Poll().status().code(), StatusCode::kInvalidArgument);
  targets_ = {{"none", targets_[0].memory}};
  follower_.emplace(Root(), targets_);
  EXPECT_EQ(follower_->Poll().status().code(), StatusCode::kNotFound);
}

// A delta describes its tensors as its base does, until they change.
TEST(Deltas, AStepWithTheTensorsOfTheStepBeforeIsNoted) {
  const ScratchDirectory scratch;
  const Array first = RandomArray(DType::kFloat32, {50, 30}, 1);
  const Array second = RandomArray(DType::kFloat32, {50, 30}, 2);
  const auto notes = [&](int64_t step, const Array& w, bool has_more = false) {
    Tree tree = Tree::Dict(
        {{"w", w}, {"n", Array::FromBytes(DType::kInt64, {1}, &step)}});
    if (has_more) tree = Tree::Dict({{"w", w}, {"x", second}});
    const auto saved = SaveInChain(scratch / std::to_string(step), tree, 8);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    EXPECT_EQ(saved->order, step % 8);
    return saved->notes;
  };
  EXPECT_THAT(notes(0, first), IsEmpty());
  EXPECT_THAT(notes(1, first), ElementsAre(HasSubstr("of step 0 (1 floating")));
  EXPECT_THAT(notes(2, first), SizeIs(1));
  EXPECT_THAT(notes(3, second), IsEmpty());
  EXPECT_THAT(notes(4, second), SizeIs(1));
  EXPECT_THAT(notes(5, second, true), IsEmpty());
  EXPECT_THAT(notes(6, second), IsEmpty());
  EXPECT_THAT(notes(7, second), SizeIs(1));
  EXPECT_THAT(notes(8, second), IsEmpty());  // saved in full: not known
  EXPECT_THAT(notes(9, second), SizeIs(1));
}

}  // namespace
}  // namespace holdfast
