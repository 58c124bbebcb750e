// Checkpoints that refer to other checkpoints (deltas and views). Overwriting,
// pruning, moving, linking, copying and following leave every saved step
// readable; a call that would lose a step is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/test_trees.h"
#include "engine/references/referrers.h"
#include "holdfast/checkpoint.h"
#include "holdfast/delta.h"
#include "holdfast/detail/commit.h"
#include "holdfast/pending_save.h"
#include "holdfast/steps/steps.h"
#include "holdfast/steps/wait_for_checkpoint.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/remote.h"
#include "holdfast/tools/view.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr StatusCode kRefused = StatusCode::kFailedPrecondition;
constexpr uint64_t kAnchorEvery = 16;

// Returns a tree whose weights identify `value`, a step number.
Tree StateOf(int value) {
  Array weights = RandomArray(DType::kBfloat16, {40, 50}, 1);
  std::memcpy(weights.mutable_view().data, &value, sizeof value);
  return Tree::Dict({{"kept", Tree(RandomArray(DType::kFloat32, {30}, 2))},
                     {"value", Tree(int64_t{value})},
                     {"w", Tree(weights)}});
}

class References : public ::testing::Test {
 protected:
  References() { fs::create_directories(root_); }

  std::string Path(int64_t step) const {
    return root_ + "/" + std::to_string(step);
  }
  static SaveOptions Over() {
    SaveOptions options;
    options.overwrite = true;
    return options;
  }
  void SaveWhole(int64_t step) {
    const auto saved = Save(Path(step), StateOf(static_cast<int>(step)));
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  }
  void SaveOn(int64_t step, const std::string& base) {
    const auto saved =
        SaveDelta(Path(step), StateOf(static_cast<int>(step)), base);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  }
  // Saves steps 0 to `last`, each a delta of the one before.
  void SaveChain(int64_t last) {
    SaveWhole(0);
    for (int64_t step = 1; step <= last; ++step) SaveOn(step, Path(step - 1));
  }
  static void ExpectHolds(const std::string& path, int value) {
    const auto loaded = Load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(loaded->tree == StateOf(value)) << path;
  }
  void ExpectStep(int64_t step) {
    ExpectHolds(Path(step), static_cast<int>(step));
  }
  std::vector<std::string> PruneToLatest(const std::string& root,
                                         uint64_t count) {
    PruneOptions options;
    options.keep = {{"--keep-latest", LatestN{static_cast<int64_t>(count)}}};
    const auto plan = PlanPrune(root, options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    const auto pruned = Prune(root, *plan);
    EXPECT_TRUE(pruned.ok()) << pruned.status().ToString();
    return *pruned;
  }

  ScratchDirectory directory_;
  const std::string root_ = directory_ / "run";
};

TEST_F(References, ABaseMadeFromTheStepThatItsDeltaReplacesIsRefused) {
  SaveChain(3);
  for (const int64_t base : {1, 2, 3}) {
    const auto saved = SaveDelta(Path(1), StateOf(9), Path(base), Over());
    EXPECT_EQ(saved.status().code(), StatusCode::kInvalidArgument) << base;
  }
  fs::create_directory_symlink("run", directory_ / "home");
  const auto by_link =
      SaveDelta(directory_ / "home" + "/1", StateOf(9), Path(3), Over());
  EXPECT_EQ(by_link.status().code(), StatusCode::kInvalidArgument);
  for (int64_t step = 0; step < 4; ++step) ExpectStep(step);
}

TEST_F(References, ABaseThatIsAViewOfTheStepThatItsDeltaReplacesIsRefused) {
  SaveOptions raw;
  raw.compression = Compression::kNone;
  ASSERT_TRUE(Save(Path(4), StateOf(4), raw).ok());
  // The view is outside the run's root.
  const std::string view = directory_ / "elsewhere" + "/view";
  fs::create_directory(directory_ / "elsewhere");
  ASSERT_TRUE(View(Path(4), view).ok());
  SaveOn(5, view);
  for (const std::string& base : {view, Path(5)}) {
    const auto saved = SaveDelta(Path(4), StateOf(9), base, Over());
    EXPECT_EQ(saved.status().code(), StatusCode::kInvalidArgument) << base;
  }
  // A view must not overwrite its own source.
  ViewOptions over;
  over.overwrite = true;
  EXPECT_FALSE(View(view, Path(4), over).ok());
  ExpectStep(4);
  ExpectStep(5);
  ExpectHolds(view, 4);
  CopyOptions copy;
  copy.overwrite = true;
  for (const bool follow : {false, true}) {
    copy.follow_links = follow;
    static_cast<void>(Copy(view, Path(4), copy));
    ExpectStep(4);
  }
  ConvertOptions convert;
  convert.overwrite = true;
  static_cast<void>(Convert(view, Path(4), convert));
  ExpectStep(4);
}

TEST_F(References, ARunThatWentBackBuildsOnWhatWasBefore) {
  SaveWhole(10);
  SaveOn(20, Path(10));
  SaveOn(30, Path(20));
  ASSERT_TRUE(SaveInChain(Path(25), StateOf(25), kAnchorEvery).ok());
  const auto opened = Open(Path(25));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->info().bases[0], Path(20));
  const auto again = SaveInChain(Path(30), StateOf(31), kAnchorEvery, Over());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->order, 3u);
  for (const int64_t step : {10, 20, 25}) ExpectStep(step);
  ExpectHolds(Path(30), 31);
}

TEST_F(References, AStepThatOthersNeedIsNotReplaced) {
  SaveChain(2);
  const Status whole = Save(Path(1), StateOf(9), Over()).status();
  EXPECT_EQ(whole.code(), kRefused);
  EXPECT_THAT(std::string(whole.message()), HasSubstr(Path(2)));
  EXPECT_THAT(std::string(whole.message()), HasSubstr("materialize"));
  EXPECT_EQ(SaveDelta(Path(1), StateOf(9), Path(0), Over()).status().code(),
            kRefused);
  SaveOptions marker = Over();
  marker.commit_mode = CommitMode::kMarkerFile;
  EXPECT_EQ(Save(Path(1), StateOf(9), marker).status().code(), kRefused);
  EXPECT_EQ(CheckMayReplace(Path(1)).code(), kRefused);
  ConvertOptions other;
  other.overwrite = true;
  other.zarr_format = 3;
  EXPECT_EQ(Convert(Path(0), Path(0), other).status().code(), kRefused);
  other.zarr_format.reset();
  other.format = Format::kSafetensors;
  EXPECT_EQ(Convert(Path(0), Path(0), other).status().code(), kRefused);
  CopyOptions copy;
  copy.overwrite = true;
  ASSERT_TRUE(Save(directory_ / "x", StateOf(9)).ok());
  EXPECT_EQ(Copy(directory_ / "x", Path(0), copy).status().code(), kRefused);
  for (int64_t step = 0; step < 3; ++step) ExpectStep(step);
  // The remedy that the error message names.
  ASSERT_TRUE(Materialize(Path(2)).ok());
  ASSERT_TRUE(Save(Path(1), StateOf(9), Over()).ok());
  ExpectStep(2);
}

TEST_F(References, AViewKeepsItsSourceFromBeingReplaced) {
  SaveOptions raw;
  raw.compression = Compression::kNone;
  ASSERT_TRUE(Save(Path(1), StateOf(1), raw).ok());
  ASSERT_TRUE(View(Path(1), Path(2)).ok());
  EXPECT_EQ(Save(Path(1), StateOf(9), Over()).status().code(), kRefused);
  ExpectHolds(Path(2), 1);
  fs::remove_all(Path(2));
  EXPECT_TRUE(Save(Path(1), StateOf(9), Over()).ok());
}

TEST_F(References, WhatStaysTheSameResultMayBeReplaced) {
  SaveChain(3);
  ASSERT_TRUE(Materialize(Path(1)).ok());
  for (int64_t step = 0; step < 4; ++step) ExpectStep(step);
  // Overwrites step 2 with exactly the same state.
  const auto again = SaveDelta(Path(2), StateOf(2), Path(1), Over());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  ExpectStep(3);
}

TEST_F(References, ACopyOfWhatIsReplacedMayBeTheBase) {
  SaveWhole(1);
  fs::create_directory(directory_ / "copy");
  fs::copy(Path(1), directory_ / "copy/1", fs::copy_options::recursive);
  const auto saved =
      SaveDelta(Path(1), StateOf(5), directory_ / "copy/1", Over());
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  ExpectHolds(Path(1), 5);
}

TEST_F(References, ADeltaIsMaterializedInPlaceThroughALink) {
  SaveChain(2);
  fs::create_directory_symlink("1", root_ + "/latest");
  const auto made = Materialize(root_ + "/latest");
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_TRUE(fs::is_symlink(root_ + "/latest"));
  EXPECT_TRUE((*Open(Path(1)))->info().bases.empty());
  for (int64_t step = 0; step < 3; ++step) ExpectStep(step);
}

TEST_F(References, WhatACrashLeftBesideRefusesNothing) {
  SaveChain(1);
  // Simulates a save of step 2 that died.
  fs::copy(Path(1), Path(2) + ".orbax-checkpoint-tmp",
           fs::copy_options::recursive);
  fs::remove_all(Path(1));
  EXPECT_TRUE(Save(Path(0), StateOf(9), Over()).ok());
}

TEST_F(References, ABaseIsKnownByWhateverNameItWasGiven) {
  SaveWhole(0);
  SaveWhole(1);
  fs::create_directory_symlink("1", root_ + "/latest");
  fs::create_directory_symlink(root_, directory_ / "home");
  SaveOn(2, root_ + "/latest");
  SaveOn(3, directory_ / "home" + "/2");
  ASSERT_TRUE(SaveDelta(directory_ / "home" + "/4", StateOf(4), Path(3)).ok());
  EXPECT_EQ(BytesOf(Path(2) + "/_HOLDFAST_BASE"), "1");
  EXPECT_EQ(BytesOf(Path(3) + "/_HOLDFAST_BASE"), "2");
  EXPECT_EQ(BytesOf(Path(4) + "/_HOLDFAST_BASE"), "3");
  // Step 5 is saved in another directory, and moved into the root.
  ASSERT_TRUE(SaveDelta(directory_ / "stage/5", StateOf(5), Path(4)).ok());
  fs::rename(directory_ / "stage/5", Path(5));
  const auto pruned = PruneToLatest(directory_ / "home", 1);
  EXPECT_EQ(pruned, std::vector<std::string>{"0"});
  for (int64_t step = 1; step < 6; ++step) ExpectStep(step);
  // The same holds for a root that is renamed, or reached through a link to a
  // step.
  fs::remove(directory_ / "home");
  fs::rename(root_, directory_ / "elsewhere");
  fs::create_directory_symlink("elsewhere/5", directory_ / "best");
  for (int step = 1; step < 6; ++step) {
    ExpectHolds(directory_ / "elsewhere/" + std::to_string(step), step);
  }
  ExpectHolds(directory_ / "best", 5);
}

TEST_F(References, WhatSystemsLeaveInABaseChangesNothing) {
  SaveChain(1);
  std::ofstream(Path(0) + "/.DS_Store") << "x";
  std::ofstream(Path(0) + "/d/._y") << "x";
  ExpectStep(1);
}

TEST_F(References, AViewAndItsSourceComeBackTogether) {
  SaveOptions raw;
  raw.compression = Compression::kNone;
  ASSERT_TRUE(Save(Path(0), StateOf(0), raw).ok());
  ASSERT_TRUE(View(Path(0), Path(1)).ok());
  SaveWhole(2);
  EXPECT_EQ(PruneToLatest(root_, 1).size(), 2u);
  ASSERT_TRUE(UndeleteStep(root_, 1).ok());
  ExpectHolds(Path(1), 0);
  // A step in the trash keeps the steps that it needs to be restored.
  ASSERT_TRUE(TrashStep(root_, "1", TrashUse::kKeep).ok());
  EXPECT_TRUE(PruneToLatest(root_, 1).empty());
  ASSERT_TRUE(UndeleteStep(root_, 1).ok());
  ExpectHolds(Path(1), 0);
}

TEST_F(References, ADeltaDoesNotComeBackToAnotherBase) {
  SaveChain(1);
  ASSERT_TRUE(TrashStep(root_, "1", TrashUse::kKeep).ok());
  fs::rename(Path(0), directory_ / "old");
  ASSERT_TRUE(Save(Path(0), StateOf(7)).ok());
  EXPECT_EQ(UndeleteStep(root_, 1).status().code(), kRefused);
  EXPECT_FALSE(fs::exists(Path(1)));
  fs::remove_all(Path(0));
  fs::rename(directory_ / "old", Path(0));
  ASSERT_TRUE(UndeleteStep(root_, 1).ok());
  ExpectStep(1);
}

TEST_F(References, ATreeThatIsOneArrayMayBeADelta) {
  const auto saved = [&](int64_t step, int value, const std::string& base) {
    Array array = RandomArray(DType::kFloat32, {300}, 1);
    std::memcpy(array.mutable_view().data, &value, sizeof value);
    return base.empty() ? Save(Path(step), Tree(array)).status()
                        : SaveDelta(Path(step), Tree(array), base).status();
  };
  ASSERT_TRUE(saved(0, 0, "").ok());
  ASSERT_TRUE(saved(1, 1, Path(0)).ok());
  ASSERT_TRUE(saved(2, 2, Path(1)).ok());
  const auto loaded = Load(Path(2));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  int value = 0;
  std::memcpy(&value, loaded->tree.array().view().data, sizeof value);
  EXPECT_EQ(value, 2);
}

TEST_F(References, AnItemOfAStepIsNotReplacedByItself) {
  SaveOptions v1;
  v1.format = Format::kOrbaxV1;
  ASSERT_TRUE(Save(Path(0), StateOf(0), v1).ok());
  EXPECT_EQ(Save(Path(0) + "/state", StateOf(9), Over()).status().code(),
            kRefused);
  ExpectStep(0);
}

TEST_F(References, FilesBesideTheListedOnesChangeNothing) {
  SaveChain(1);
  std::ofstream(Path(0) + "/report.html") << "x";
  ExpectStep(1);
}

TEST_F(References, NeighboursThatNobodyCanReadAreInNobodysWay) {
  SaveWhole(0);
  for (const char* name : {"a", "b", "c"}) {
    fs::create_directory(root_ + "/" + name);
  }
  fs::create_symlink("nowhere", root_ + "/a/_METADATA");
  fs::create_symlink("_METADATA", root_ + "/b/_METADATA");
  std::ofstream(root_ + "/c/_HOLDFAST_BASE") << "";
  fs::resize_file(root_ + "/c/_HOLDFAST_BASE", uint64_t{1} << 36);
  fs::create_symlink("loop", root_ + "/loop");
  EXPECT_TRUE(Save(Path(0), StateOf(9), Over()).ok());
  SaveWhole(1);
  EXPECT_EQ(PruneToLatest(root_, 1), std::vector<std::string>{"0"});
}

TEST_F(References, LinksToStepsAreNotPruned) {
  SaveWhole(0);
  SaveWhole(1);
  fs::create_directory_symlink("1", Path(5));
  EXPECT_EQ(PruneToLatest(root_, 1), std::vector<std::string>{"0"});
  EXPECT_TRUE(fs::is_symlink(Path(5)));
}

TEST_F(References, AFolderOfRunsMayBeMovedAsAWhole) {
  SaveWhole(7);
  const std::string tuned = directory_ / "tuned/1";
  ASSERT_TRUE(SaveDelta(tuned, StateOf(8), Path(7)).ok());
  fs::create_directory(directory_ / "all");
  fs::rename(root_, directory_ / "all/run");
  fs::rename(directory_ / "tuned", directory_ / "all/tuned");
  ExpectHolds(directory_ / "all/tuned/1", 8);
  // Another run at the old place must not be taken for the base.
  ASSERT_TRUE(Save(Path(7), StateOf(1)).ok());
  ExpectHolds(directory_ / "all/tuned/1", 8);
}

TEST_F(References, AStepThatALinkLeadsToIsOneOfItsRoot) {
  SaveWhole(0);
  SaveOn(1, Path(0));
  fs::create_directory(directory_ / "disk");
  fs::rename(Path(1), directory_ / "disk/1");
  fs::create_directory_symlink(directory_ / "disk/1", Path(1));
  ExpectStep(1);
  const auto needed = NeededByOthers(Place(root_), {"0"});
  ASSERT_TRUE(needed.ok());
  EXPECT_EQ(needed->size(), 1u);
  SaveOn(2, Path(1));
  ExpectStep(2);
}

TEST_F(References, PruneFindsABaseAlsoWithoutTheFileThatNamesIt) {
  SaveChain(1);
  std::ofstream(Path(1) + "/_HOLDFAST_BASE") << "9";
  EXPECT_TRUE(PruneToLatest(root_, 1).empty());
  fs::remove(Path(1) + "/_HOLDFAST_BASE");
  EXPECT_TRUE(PruneToLatest(root_, 1).empty());
  // With damaged metadata, the base is still found through _HOLDFAST_BASE.
  SaveWhole(2);
  SaveOn(3, Path(2));
  std::ofstream(Path(3) + "/_METADATA") << "{";
  const auto pruned = PruneToLatest(root_, 1);
  EXPECT_TRUE(fs::exists(Path(2)));
}

// A prune removes a delta before its base. In the other order, an interrupted
// prune could leave a delta without its base.
TEST_F(References, WhatRefersToOthersGoesBeforeThem) {
  using Names = std::vector<std::string>;
  SaveChain(2);
  SaveWhole(7);
  SaveOn(3, Path(7));
  EXPECT_EQ(ReferrersFirst(Place(root_), {"0", "1", "2"}),
            (Names{"2", "1", "0"}));
  EXPECT_EQ(ReferrersFirst(Place(root_), {"7", "3"}), (Names{"3", "7"}));
  EXPECT_EQ(ReferrersFirst(Place(root_), {"0", "2"}).size(), 2u);
  // An unreadable step is removed as well.
  std::ofstream(Path(2) + "/_METADATA") << "{";
  EXPECT_EQ(ReferrersFirst(Place(root_), {"0", "1", "2", "gone"}).size(), 4u);
  EXPECT_EQ(PruneToLatest(root_, 1), (Names{"0", "1", "2", "3"}));
}

TEST_F(References, DamageThatADeltaDoesNotNeedKeepsNoDoorShut) {
  SaveOptions folders;
  folders.use_ocdbt = false;
  const Tree before = Tree::Dict(
      {{"kept", Tree(RandomArray(DType::kFloat32, {30}, 2))},
       {"was", Tree(RandomArray(DType::kInt8, {9}, 3))}});
  ASSERT_TRUE(Save(Path(0), before, folders).ok());
  std::ofstream(Path(0) + "/was/.zarray") << "{";
  const auto saved = SaveInChain(Path(1), StateOf(1), kAnchorEvery);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_EQ(saved->order, 1u);
  ExpectStep(1);
  const auto opened = Open(Path(1));
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
}

// A copy in another format that is named like a step does not count as the
// newest step.
TEST_F(References, NoStepGoesForTheSakeOfAnotherFormat) {
  SaveWhole(0);
  ConvertOptions to_dcp;
  to_dcp.format = Format::kDcp;
  ASSERT_TRUE(Convert(Path(0), Path(1), to_dcp).ok());
  EXPECT_TRUE(PruneToLatest(root_, 1).empty());
  ExpectStep(0);
  // If all steps have that format, they are pruned like any others.
  const std::string others = directory_ / "others";
  for (const char* step : {"/1", "/2"}) {
    ASSERT_TRUE(Convert(Path(0), others + step, to_dcp).ok());
  }
  EXPECT_EQ(PruneToLatest(others, 1), (std::vector<std::string>{"1"}));
}

TEST_F(References, ADeltaComesBackFromTheTrashWithItsBases) {
  SaveChain(2);
  SaveWhole(3);
  EXPECT_EQ(PruneToLatest(root_, 1).size(), 3u);
  ASSERT_TRUE(UndeleteStep(root_, 2).ok());
  for (int64_t step = 0; step < 4; ++step) ExpectStep(step);
}

TEST_F(References, ABaseInTheTrashIsKnownByItsContentNotByItsNumber) {
  // Step 1 is a delta of another root's step 2; step 2 is a delta of step 1.
  const std::string other = directory_ / "other";
  fs::create_directory(other);
  ASSERT_TRUE(Save(other + "/2", StateOf(7)).ok());
  SaveOn(1, other + "/2");
  SaveOn(2, Path(1));
  SaveWhole(3);
  EXPECT_EQ(PruneToLatest(root_, 1).size(), 2u);
  const auto back = UndeleteStep(root_, 1);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ExpectStep(1);
  EXPECT_FALSE(fs::exists(Path(2)));
  ASSERT_TRUE(UndeleteStep(root_, 2).ok());
  ExpectStep(2);
  // Two steps 0 are in the trash; the base is not the latest.
  SaveWhole(0);
  SaveOn(4, Path(0));
  for (const char* step : {"4", "0"}) {
    ASSERT_TRUE(TrashStep(root_, step, TrashUse::kKeep).ok());
  }
  ASSERT_TRUE(Save(Path(0), StateOf(8)).ok());
  ASSERT_TRUE(TrashStep(root_, "0", TrashUse::kKeep).ok());
  const auto last = UndeleteStep(root_, 4);
  ASSERT_TRUE(last.ok()) << last.status().ToString();
  ExpectStep(4);
  ExpectStep(0);
}

TEST_F(References, ADamagedDeltaDoesNotKeepItsBaseFromBeingMadeWhole) {
  SaveChain(2);
  fs::resize_file(Path(2) + "/_METADATA", 9);
  const auto made = Materialize(Path(1));
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  ExpectStep(1);
  EXPECT_EQ(Save(Path(1), StateOf(9), Over()).status().code(), kRefused);
}

TEST_F(References, LeftoversInARootBesideNeedNothing) {
  const std::string base = directory_ / "base";
  ASSERT_TRUE(Save(base, StateOf(0)).ok());
  SaveOn(1, base);
  EXPECT_EQ(Save(base, StateOf(9), Over()).status().code(), kRefused);
  fs::rename(Path(1), Path(1) + ".orbax-checkpoint-tmp");
  const auto saved = Save(base, StateOf(9), Over());
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  ExpectHolds(base, 9);
}

TEST_F(References, ADeltaWhoseBaseIsNotInTheTrashStaysThere) {
  SaveChain(2);
  SaveWhole(3);
  EXPECT_EQ(PruneToLatest(root_, 1).size(), 3u);
  const fs::path trash = root_ + "/.holdfast_trash";
  for (const auto& entry : fs::directory_iterator(trash)) {
    if (!entry.path().filename().string().starts_with("0.")) continue;
    fs::remove_all(entry.path());
    break;
  }
  EXPECT_EQ(UndeleteStep(root_, 2).status().code(), kRefused);
  EXPECT_FALSE(fs::exists(Path(1)));
  EXPECT_FALSE(fs::exists(Path(2)));
}

// A prune removes the base between its choice and the commit.
TEST_F(References, ABaseThatIsPrunedMeanwhileEndsTheSave) {
  SaveChain(0);
  SaveWhole(1);
  SaveWhole(2);
  bool has_pruned = false;
  SaveOptions options;
  options.run.progress = [&](const Progress& progress) {
    if (has_pruned || progress.phase != "encode") return;
    has_pruned = true;
    EXPECT_EQ(PruneToLatest(root_, 1), (std::vector<std::string>{"0", "1"}));
  };
  const auto saved = SaveDelta(Path(3), StateOf(3), Path(1), options);
  ASSERT_TRUE(has_pruned);
  EXPECT_FALSE(saved.ok());
  EXPECT_FALSE(fs::exists(Path(3)));
}

// A delta is saved between the planning and the execution of a prune.
TEST_F(References, APlanThatADeltaHasOvertakenLeavesItsBase) {
  SaveChain(0);
  SaveWhole(1);
  PruneOptions options;
  options.keep = {{"--keep-latest", LatestN{1}}};
  const auto plan = PlanPrune(root_, options);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->rows[0].kept_by.empty());
  SaveOn(2, Path(0));
  const auto pruned = Prune(root_, *plan);
  ASSERT_TRUE(pruned.ok());
  EXPECT_TRUE(pruned->empty());
  ExpectStep(2);
}

TEST_F(References, ARunGoesOnBesideDamageFromANewAnchor) {
  SaveOptions raw;
  raw.compression = Compression::kNone;
  ASSERT_TRUE(Save(Path(0), StateOf(0), raw).ok());
  SaveOn(1, Path(0));
  for (const auto& entry : fs::recursive_directory_iterator(Path(0))) {
    if (entry.path().parent_path().filename() != "d") continue;
    std::string bytes = BytesOf(entry.path());
    for (char& byte : bytes) byte ^= 4;
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  EXPECT_TRUE(IsDamage(SaveDelta(Path(2), StateOf(2), Path(1)).status()));
  const auto saved = SaveInChain(Path(2), StateOf(2), kAnchorEvery);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_EQ(saved->order, 0u);
  EXPECT_THAT(saved->why_whole, HasSubstr(Path(0)));
  const auto next = SaveInChain(Path(3), StateOf(3), kAnchorEvery);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->order, 1u);
  EXPECT_EQ(next->why_whole, "");
  ExpectStep(2);
  ExpectStep(3);
  // The chain's last full step is removed.
  fs::remove_all(Path(2));
  const auto after = SaveInChain(Path(4), StateOf(4), kAnchorEvery);
  ASSERT_TRUE(after.ok()) << after.status().ToString();
  EXPECT_EQ(after->order, 0u);
  ExpectStep(4);
}

TEST_F(References, AFollowerKnowsStepsByWhatTheyHold) {
  SaveChain(2);
  Array weights = RandomArray(DType::kBfloat16, {40, 50}, 7);
  Follower follower(root_, {{"w", weights.mutable_view()}});
  const auto value = [&] {
    int found = 0;
    std::memcpy(&found, weights.view().data, sizeof found);
    return found;
  };
  ASSERT_TRUE(follower.Poll().ok());
  EXPECT_EQ(value(), 2);
  EXPECT_FALSE(follower.Poll()->has_value());
  // The step is saved again.
  ASSERT_TRUE(SaveDelta(Path(2), StateOf(50), Path(1), Over()).ok());
  const auto replaced = follower.Poll();
  ASSERT_TRUE(replaced.ok()) << replaced.status().ToString();
  EXPECT_TRUE(replaced->has_value());
  EXPECT_EQ(value(), 50);
  // And again, with a delta based on it before the next poll.
  ASSERT_TRUE(SaveDelta(Path(2), StateOf(60), Path(1), Over()).ok());
  SaveOn(3, Path(2));
  const auto next = follower.Poll();
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_EQ(value(), 3);
  // The same for a full step.
  ASSERT_TRUE(Materialize(Path(3)).ok());
  ASSERT_TRUE(Save(Path(3), StateOf(70), Over()).ok());
  ASSERT_TRUE(follower.Poll().ok());
  EXPECT_EQ(value(), 70);
  SaveOn(4, Path(3));
  const auto chained = follower.Poll();
  ASSERT_TRUE(chained.ok() && chained->has_value());
  EXPECT_EQ((*chained)->delta_count, 1u);
  EXPECT_EQ(value(), 4);
}

TEST_F(References, AStepIsNotTakenForItsOwnBase) {
  const std::string other = directory_ / "other";
  SaveWhole(1);
  ASSERT_TRUE(SaveDelta(other + "/1", StateOf(2), Path(1)).ok());
  fs::rename(root_, root_ + "-gone");
  const auto loaded = Load(other + "/1");
  EXPECT_EQ(loaded.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(loaded.status().message(), HasSubstr(Path(1)));
  // The base is step 0, and the copy of the delta is itself named 0.
  SaveChain(1);
  fs::create_directories(directory_ / "third");
  fs::copy(Path(1), directory_ / "third/0", fs::copy_options::recursive);
  EXPECT_EQ(Load(directory_ / "third/0").status().code(),
            StatusCode::kNotFound);
}

// A view without checksums recognizes its source by the file's time.
TEST_F(References, ACopyOfAViewThatHoldsItsSourceIsReadable) {
  const std::string source = directory_ / "m.safetensors";
  SaveWhole(1);
  ConvertOptions to_file;
  to_file.format = Format::kSafetensors;
  ASSERT_TRUE(Convert(Path(1), source, to_file).ok());
  for (const LinkKind link : {LinkKind::kHard, LinkKind::kCopy}) {
    ViewOptions options;
    options.link = link;
    options.checksums = false;
    const std::string view =
        directory_ / ("view" + std::to_string(static_cast<int>(link)));
    ASSERT_TRUE(View(source, view, options).ok());
    const auto copied = Copy(view, view + "-copy");
    ASSERT_TRUE(copied.ok()) << copied.status().ToString();
    ExpectHolds(view + "-copy", 1);
  }
}

// Step 0's base is a step 1 of another root, not this root's step 1.
TEST_F(References, ARootIsCopiedInTheOrderOfItsBases) {
  const std::string other = directory_ / "other";
  ASSERT_TRUE(Save(other + "/1", StateOf(9)).ok());
  SaveOn(0, other + "/1");
  SaveOn(1, Path(0));
  const auto copied = Copy(root_, root_ + "-copy");
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  ExpectHolds(root_ + "-copy/0", 0);
  ExpectHolds(root_ + "-copy/1", 1);
}

TEST_F(References, ADeltaIsOnlyCopiedToWhereItsBaseIs) {
  SaveChain(2);
  const std::string backup = directory_ / "backup";
  const auto lone = Copy(Path(1), backup + "/1");
  EXPECT_EQ(lone.status().code(), kRefused);
  EXPECT_THAT(std::string(lone.status().message()), HasSubstr("materialize"));
  EXPECT_FALSE(fs::exists(backup + "/1"));
  // The base can be copied first, or all steps in one call.
  for (const char* step : {"0", "1"}) {
    const auto copied = Copy(root_ + "/" + step, backup + "/" + step);
    ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  }
  ExpectHolds(backup + "/1", 1);
  ASSERT_TRUE(PruneToLatest(root_, 1).empty());
  SaveWhole(3);
  SaveWhole(4);
  fs::create_directories(root_ + "/.holdfast_trash/9.1");
  std::ofstream(root_ + "/.holdfast_trash/9.1/_METADATA") << "x";
  const auto all = Copy(root_, directory_ / "all");
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_FALSE(fs::exists(directory_ / "all/.holdfast_trash"));
  fs::remove_all(root_);
  for (int step = 0; step < 5; ++step) {
    ExpectHolds(directory_ / "all/" + std::to_string(step), step);
  }
}

TEST_F(References, ASnapshotIsReadableOrRefused) {
  SaveChain(1);
  const std::string shots = directory_ / "shots";
  fs::create_directory(shots);
  EXPECT_EQ(CreateSnapshot(Path(1), shots + "/1").code(), kRefused);
  EXPECT_TRUE(fs::is_empty(shots));
  SaveOptions raw;
  raw.compression = Compression::kNone;
  ASSERT_TRUE(Save(Path(5), StateOf(5), raw).ok());
  ASSERT_TRUE(View(Path(5), Path(6)).ok());
  ASSERT_TRUE(CreateSnapshot(Path(6), shots + "/6").ok());
  ExpectHolds(shots + "/6", 5);
}

TEST_F(References, ADeltaHoldsNoOtherFormat) {
  SaveWhole(0);
  SaveOptions also;
  also.also = AlsoSafetensors();
  EXPECT_EQ(SaveDelta(Path(1), StateOf(1), Path(0), also).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      SaveInChain(Path(1), StateOf(1), kAnchorEvery, also).status().code(),
      StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
