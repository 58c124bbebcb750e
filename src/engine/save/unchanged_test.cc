// A step that holds exactly the tensors of the step before it is noted; any
// other step is not.
#include "engine/save/unchanged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/pending_save.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Array Floats(Shape shape, float first, DType dtype = DType::kFloat32) {
  std::vector<float> elements(ElementCount(shape), 0.5F);
  elements[0] = first;
  return Array::FromBytes(dtype, std::move(shape), elements.data());
}

struct State {
  float large = 1;  // the first element of an array of several chunks
  float small = 1;  // and of one that is stored in a node
  int64_t step = 0;
  float rate = 0;  // 0-d
  float single = 0;
  int32_t index = 0;
  std::string small_name = "small";
  Shape small_shape = {2, 3};
  DType small_dtype = DType::kFloat32;

  Tree tree() const {
    return Tree::Dict(
        {{"large", Floats({64, 100}, large)},
         {small_name, Floats(small_shape, small, small_dtype)},
         {"step", step},
         {"rate", Floats({}, rate)},
         {"single", Floats({1}, single)},
         {"index", Array::FromBytes(DType::kInt32, {1}, &index)}});
  }
};

class UnchangedTest : public testing::Test {
 protected:
  std::vector<std::string> Notes(const std::string& path, const Tree& tree,
                                 SaveOptions options = {}) {
    options.sync = false;
    const auto saved = Save(root_ + "/" + path, tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return saved.ok() ? saved->notes : std::vector<std::string>();
  }

  SaveOptions InChunks() const {
    SaveOptions options;
    options.chunk_bytes = 4096;
    return options;
  }

  ScratchDirectory scratch_;
  const std::string root_ = scratch_.path() + "/run";
};

TEST_F(UnchangedTest, NamesBothStepsAndTheTensors) {
  EXPECT_THAT(Notes("100", State().tree()), IsEmpty());
  State later;
  later.step = later.index = 7;
  later.rate = later.single = 8;
  EXPECT_THAT(Notes("200", later.tree()),
              ElementsAre(HasSubstr(
                  root_ + ": step 200 holds exactly the tensors of step 100 "
                          "(2 floating-point arrays, 25624 bytes, ")));
  EXPECT_THAT(Notes("300", later.tree()), ElementsAre(HasSubstr("step 200 (")));
}

TEST_F(UnchangedTest, IsSaidForEveryWayToStore) {
  std::vector<SaveOptions> ways(5, InChunks());
  ways[0].use_ocdbt = false;
  ways[1].format = Format::kOrbaxV1;
  ways[2].compression = Compression::kNone;
  ways[3].compression = Compression::kZstd;
  ways[4].run.memory_bytes = 1024;  // in pieces
  for (size_t i = 0; i < ways.size(); ++i) {
    const std::string name = std::to_string(i) + "/step_";
    EXPECT_THAT(Notes(name + "1", State().tree(), ways[i]), IsEmpty()) << i;
    EXPECT_THAT(Notes(name + "2", State().tree(), ways[i]), SizeIs(1)) << i;
    State changed;
    changed.large = 2;
    EXPECT_THAT(Notes(name + "3", changed.tree(), ways[i]), IsEmpty()) << i;
    changed.small = 2;
    EXPECT_THAT(Notes(name + "4", changed.tree(), ways[i]), IsEmpty()) << i;
  }
}

TEST_F(UnchangedTest, AnyChangeOfATensorIsAChange) {
  const std::vector<std::function<void(State&)>> changes = {
      [](State& s) { s.large = 2; },
      [](State& s) { s.small = 2; },
      [](State& s) { s.small_name = "other"; },
      [](State& s) { s.small_shape = {3, 2}; },
      [](State& s) { s.small_dtype = DType::kUint32; },
  };
  State state;
  ASSERT_THAT(Notes("0", state.tree()), IsEmpty());
  for (size_t i = 0; i < changes.size(); ++i) {
    changes[i](state);
    EXPECT_THAT(Notes(std::to_string(i + 1), state.tree()), IsEmpty()) << i;
  }
}

TEST_F(UnchangedTest, OnlyALaterStepCounts) {
  const Tree tree = State().tree();
  SaveOptions over;
  over.overwrite = true;
  EXPECT_THAT(Notes("5", tree), IsEmpty());
  EXPECT_THAT(Notes("5", tree, over), IsEmpty());
  EXPECT_THAT(Notes("4", tree), IsEmpty());
  EXPECT_THAT(Notes("best", tree), IsEmpty());
  EXPECT_THAT(Notes("ema_6", tree), IsEmpty());
  EXPECT_THAT(Notes("5", tree, over), SizeIs(1));  // after 4
}

TEST_F(UnchangedTest, OnlyNamesOfStepsCount) {
  const Tree tree = State().tree();
  for (const char* steps : {"a/", "b/0000", "c/step_", "d/step_0000",
                            "e/checkpoint-", "f/iter_000", "g/global_step"}) {
    EXPECT_THAT(Notes(std::string(steps) + "1", tree), IsEmpty()) << steps;
    EXPECT_THAT(Notes(std::string(steps) + "2", tree), SizeIs(1)) << steps;
  }
  for (const char* equals : {"fold_", "copy_of_", "my_step_", "7_", "v"}) {
    EXPECT_THAT(Notes(std::string(equals) + "1", tree), IsEmpty()) << equals;
    EXPECT_THAT(Notes(std::string(equals) + "2", tree), IsEmpty()) << equals;
  }
}

TEST_F(UnchangedTest, StatesWithoutTensorsAreNotCompared) {
  const int64_t numbers[2] = {1, 2};
  const Tree tree =
      Tree::Dict({{"rate", Floats({}, 1)},
                  {"numbers", Array::FromBytes(DType::kInt64, {2}, numbers)}});
  EXPECT_THAT(Notes("1", tree), IsEmpty());
  EXPECT_THAT(Notes("2", tree), IsEmpty());
}

TEST_F(UnchangedTest, OtherOptionsOrNoDigestsAreNotCompared) {
  const Tree tree = State().tree();
  SaveOptions other;
  other.compression = Compression::kNone;
  SaveOptions none;
  none.write_digests = false;
  EXPECT_THAT(Notes("1", tree), IsEmpty());
  EXPECT_THAT(Notes("2", tree, other), IsEmpty());
  EXPECT_THAT(Notes("3", tree, none), IsEmpty());
  EXPECT_THAT(Notes("4", tree, none), IsEmpty());
}

// The process remembers its last step; only its first save reads another's.
TEST_F(UnchangedTest, ReadsOnlyBeforeTheFirstSave) {
  const Tree tree = State().tree();
  ASSERT_THAT(Notes("1", tree), IsEmpty());
  ASSERT_THAT(Notes("2", tree), SizeIs(1));
  fs::remove_all(root_ + "/2");
  EXPECT_THAT(Notes("3", tree), ElementsAre(HasSubstr("of step 2 (")));
  // In a root that the process does not know:
  fs::rename(root_, root_ + "s");
  fs::create_directories(root_ + "s/other_9");
  EXPECT_THAT(Notes("../runs/9", tree), ElementsAre(HasSubstr("of step 3 (")));
  fs::rename(root_ + "s", root_ + "t");
  std::ofstream(root_ + "t/9/_HOLDFAST_DIGESTS") << "damaged";
  EXPECT_THAT(Notes("../runt/10", tree), IsEmpty());
}

TEST_F(UnchangedTest, AllItemsAreCompared) {
  const auto notes = [&](int step, float first, float second) {
    const auto pending = PendingSave::Begin(root_ + "/" + std::to_string(step),
                                            PendingSaveOptions{.sync = false});
    EXPECT_TRUE(pending.ok()) << pending.status().ToString();
    const Tree frozen = Tree::Dict({{"w", Floats({9}, first)}});
    const Tree trained = Tree::Dict({{"w", Floats({9}, second)}});
    EXPECT_TRUE((*pending)->SaveItem("frozen", frozen, {}).ok());
    // As handlers do:
    const std::string item = (*pending)->directory() + "/trained";
    EXPECT_TRUE(SaveItem(item, trained, {}).ok());
    EXPECT_TRUE((*pending)->AdoptItem("trained").ok());
    EXPECT_TRUE((*pending)->WriteFile("metrics", std::to_string(step)).ok());
    EXPECT_TRUE((*pending)->Commit({}).ok());
    return (*pending)->notes();
  };
  EXPECT_THAT(notes(1, 1, 1), IsEmpty());
  EXPECT_THAT(notes(2, 1, 2), IsEmpty());
  EXPECT_THAT(notes(3, 1, 2), SizeIs(1));
  EXPECT_THAT(notes(4, 2, 2), IsEmpty());
}

// Nobody knows what an item without checksums holds.
TEST_F(UnchangedTest, AStepWithAnUnknownItemIsNotCompared) {
  const Tree tree = State().tree();
  SaveOptions unknown;
  unknown.write_digests = false;
  for (const char* step : {"1", "2"}) {
    const auto pending =
        PendingSave::Begin(root_ + "/" + step, {.sync = false});
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    ASSERT_TRUE((*pending)->SaveItem("known", tree, {}).ok());
    ASSERT_TRUE((*pending)->SaveItem("unknown", tree, unknown).ok());
    ASSERT_TRUE((*pending)->Commit({}).ok());
    EXPECT_THAT((*pending)->notes(), IsEmpty());
  }
}

// Each rank has one row. Rank 0 says it for all.
TEST_F(UnchangedTest, TheRanksOfAGroupAreComparedTogether) {
  const auto notes = [&](int step, float of_rank_1) {
    std::vector<std::vector<std::string>> said(2);
    OnThreads(2, kPatienceSeconds, [&](ProcessGroup& group) {
      const int64_t rank = group.rank();
      std::vector<ArrayShard> mine;
      mine.push_back({{rank, 0}, Floats({1, 50}, rank == 0 ? 1 : of_rank_1)});
      SaveOptions options;
      options.group = &group;
      said[rank] = Notes(
          std::to_string(step),
          Tree::Dict(
              {{"w", Tree::ShardedArray({2, 50}, std::move(mine),
                                        std::make_shared<const ArrayTraits>(
                                            ArrayTraits{"", "", {1, 50}}))}}),
          options);
    });
    EXPECT_THAT(said[1], IsEmpty());
    return said[0];
  };
  EXPECT_THAT(notes(1, 1), IsEmpty());
  EXPECT_THAT(notes(2, 1),
              ElementsAre(HasSubstr("(1 floating-point arrays, 400 bytes, ")));
  EXPECT_THAT(notes(3, 2), IsEmpty());
}

}  // namespace
}  // namespace holdfast
