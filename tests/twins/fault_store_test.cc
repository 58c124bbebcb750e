#include "twins/fault_store.h"

#include <set>

#include "conformance/store_conformance.h"

namespace holdfast {
namespace {

using conformance::Contents;
using testing::ElementsAre;
using testing::HasSubstr;

struct FaultlessFactory {
  std::unique_ptr<Store> Make() { return std::make_unique<FaultStore>(); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Fault, StoreConformance, FaultlessFactory);

constexpr WriteOptions kUnsynced = {.sync = false, .atomic = true};
constexpr WriteOptions kInPlace = {.sync = true, .atomic = false};
constexpr WriteOptions kInPlaceUnsynced = {.sync = false, .atomic = false};
constexpr int kSeedCount = 400;

// Returns the states of `key` after a crash, with many seeds.
std::set<std::string> Outcomes(const FaultStore& store, std::string_view key) {
  std::set<std::string> outcomes;
  for (int seed = 0; seed < kSeedCount; ++seed) {
    outcomes.insert(Contents(*store.AfterCrash(seed), key));
  }
  return outcomes;
}

// Saves in the order of a real checkpoint; returns the first failure.
Status SmallSave(Store& store) {
  const std::string_view data[] = {"data"};
  Result<std::unique_ptr<ObjectWriter>> writer = store.Create("d/0");
  if (!writer.ok()) return writer.status();
  if (Status s = (*writer)->WriteAt(0, data); !s.ok()) return s;
  if (Status s = (*writer)->Finish(true); !s.ok()) return s;
  if (Status s = store.Write("meta", "m", kInPlace); !s.ok()) return s;
  if (Status s = store.SyncNames(); !s.ok()) return s;
  return store.Write("marker", "done");
}

TEST(FaultStore, RecordsOperationsInOrder) {
  FaultStore store;
  ASSERT_TRUE(SmallSave(store).ok());
  EXPECT_THAT(
      store.operations(),
      ElementsAre("create d/0", "write_at d/0", "finish d/0 sync",
                  "write meta sync", "sync_names", "write marker sync atomic"));
  EXPECT_EQ(store.operation_count(), 6u);
}

TEST(FaultStore, FailsExactlyTheKthOperation) {
  for (uint64_t k = 1; k <= 6; ++k) {
    FaultStore store({.fail_at = k, .code = StatusCode::kResourceExhausted});
    const Status status = SmallSave(store);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("injected failure of operation " + std::to_string(k) + ":"));
    EXPECT_EQ(Contents(store, "marker"), "<NOT_FOUND>");
    EXPECT_TRUE(SmallSave(store).ok()) << "fails once only";
  }
  FaultStore store({.fail_at = 7});
  EXPECT_TRUE(SmallSave(store).ok());
}

TEST(FaultStore, StickyFailuresStay) {
  FaultStore store({.fail_at = 2, .sticky = true});
  EXPECT_TRUE(store.Write("a", "x").ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(store.Write("b", "x").code(), StatusCode::kUnavailable);
    EXPECT_EQ(Contents(store, "a"), "<UNAVAILABLE>");
  }
  store.SetFaults({});
  EXPECT_EQ(Contents(store, "a"), "x");
  EXPECT_EQ(Contents(store, "b"), "<NOT_FOUND>");
}

TEST(FaultStore, SyncedAtomicWritesSurvive) {
  FaultStore store;
  ASSERT_TRUE(store.Write("k", "old", kUnsynced).ok());
  ASSERT_TRUE(store.Write("k", "new").ok());
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("new"));
}

TEST(FaultStore, SyncedBytesNeedTheirName) {
  FaultStore store;
  ASSERT_TRUE(store.Write("k", "new", kInPlace).ok());
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("<NOT_FOUND>", "new"));
  ASSERT_TRUE(store.SyncNames().ok());
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("new"));
}

TEST(FaultStore, SyncedNamesDoNotSaveUnsyncedBytes) {
  const std::string value(2000, 'x');
  FaultStore store;
  ASSERT_TRUE(store.Write("k", value, kInPlaceUnsynced).ok());
  ASSERT_TRUE(store.SyncNames().ok());
  bool seen_cut = false, seen_zero_tail = false;
  const std::set<std::string> outcomes = Outcomes(store, "k");
  for (const std::string& left : outcomes) {
    seen_cut |= left.size() < value.size() && !left.empty();
    seen_zero_tail |= left.size() == value.size() && left.back() == '\0';
  }
  EXPECT_TRUE(seen_cut);
  EXPECT_TRUE(seen_zero_tail);
  EXPECT_TRUE(outcomes.contains(""));
  EXPECT_TRUE(outcomes.contains(value));
  EXPECT_FALSE(outcomes.contains("<NOT_FOUND>"));
}

TEST(FaultStore, UnsyncedReplacementMayLeaveTheOldObject) {
  FaultStore store;
  ASSERT_TRUE(store.Write("k", "old").ok());
  ASSERT_TRUE(store.Write("k", "new", kUnsynced).ok());
  const std::set<std::string> outcomes = Outcomes(store, "k");
  EXPECT_TRUE(outcomes.contains("old"));
  EXPECT_TRUE(outcomes.contains("new"));
  EXPECT_TRUE(outcomes.contains(""));
  EXPECT_FALSE(outcomes.contains("<NOT_FOUND>"));
}

TEST(FaultStore, UnsyncedDeleteMayComeBack) {
  FaultStore store;
  ASSERT_TRUE(store.Write("k", "x").ok());
  ASSERT_TRUE(store.Delete("k").ok());
  EXPECT_EQ(Contents(store, "k"), "<NOT_FOUND>");
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("<NOT_FOUND>", "x"));
  ASSERT_TRUE(store.SyncNames().ok());
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("<NOT_FOUND>"));
}

TEST(FaultStore, FinishedWriterNeedsSyncNames) {
  FaultStore store;
  auto writer = store.Create("k");
  const std::string_view pieces[] = {"value"};
  ASSERT_TRUE((*writer)->WriteAt(0, pieces).ok());
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("<NOT_FOUND>"));
  ASSERT_TRUE((*writer)->Finish(true).ok());
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("<NOT_FOUND>", "value"));
  ASSERT_TRUE(store.SyncNames().ok());
  EXPECT_THAT(Outcomes(store, "k"), ElementsAre("value"));
}

TEST(FaultStore, LossModelsAreTheExtremes) {
  FaultStore store;
  ASSERT_TRUE(store.Write("durable", "d").ok());
  ASSERT_TRUE(store.Write("named", "n", kInPlaceUnsynced).ok());
  ASSERT_TRUE(store.SyncNames().ok());
  ASSERT_TRUE(store.Write("unnamed", "u", kInPlace).ok());
  const auto least = store.AfterCrash(0, CrashLoss::kAllUnsynced);
  EXPECT_THAT(conformance::Listing(*least, ""),
              ElementsAre("durable:1", "named:0"));
  const auto most = store.AfterCrash(0, CrashLoss::kNothing);
  EXPECT_THAT(conformance::Listing(*most, ""),
              ElementsAre("durable:1", "named:1", "unnamed:1"));
}

TEST(FaultStore, CrashLeavesAPlainStore) {
  FaultStore store({.fail_at = 3, .sticky = true});
  ASSERT_TRUE(store.Write("kept", "x").ok());
  ASSERT_TRUE(store.Write("lost", "x", kUnsynced).ok());
  ASSERT_FALSE(store.Write("never", "x").ok());
  store.Crash(0, CrashLoss::kAllUnsynced);
  EXPECT_THAT(conformance::Listing(store, ""), ElementsAre("kept:1"));
  EXPECT_TRUE(store.Write("again", "x", kInPlace).ok());
  EXPECT_THAT(Outcomes(store, "kept"), ElementsAre("x"));
}

TEST(FaultStore, CrashKillsOpenWriters) {
  FaultStore store;
  auto writer = store.Create("k");
  const std::string_view pieces[] = {"value"};
  ASSERT_TRUE((*writer)->WriteAt(0, pieces).ok());
  store.Crash(1);
  EXPECT_EQ((*writer)->WriteAt(5, pieces).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ((*writer)->Finish(true).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Contents(store, "k"), "<NOT_FOUND>");
}

TEST(FaultStore, TornInPlaceWriteIsGoneButMayComeBackInPart) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultStore store({.seed = seed, .fail_at = 1, .torn_writes = true});
    ASSERT_FALSE(store.Write("k", "0123456789", kInPlace).ok());
    EXPECT_EQ(Contents(store, "k"), "<NOT_FOUND>");
    outcomes.merge(Outcomes(store, "k"));
  }
  EXPECT_TRUE(outcomes.contains("<NOT_FOUND>"));
  EXPECT_TRUE(outcomes.contains("01234"));
}

TEST(FaultStore, TornAtomicWriteIsOldOrNew) {
  std::set<std::string> visible;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultStore store({.seed = seed, .fail_at = 2, .torn_writes = true});
    ASSERT_TRUE(store.Write("k", "old").ok());
    ASSERT_FALSE(store.Write("k", "new").ok());
    visible.insert(Contents(store, "k"));
    for (const std::string& left : Outcomes(store, "k")) {
      EXPECT_TRUE(left == "old" || left == "new") << left;
    }
  }
  EXPECT_THAT(visible, ElementsAre("new", "old"));
}

TEST(FaultStore, FlipsOneBitOfOneRead) {
  const std::string value(100, 'x');
  FaultStore store({.seed = 9, .flip_read_at = 2});
  ASSERT_TRUE(store.Write("k", value).ok());
  EXPECT_EQ(Contents(store, "k"), value);
  const std::string flipped = Contents(store, "k");
  int bit_count = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    bit_count +=
        __builtin_popcount(static_cast<unsigned char>(flipped[i] ^ value[i]));
  }
  EXPECT_EQ(bit_count, 1);
  EXPECT_EQ(Contents(store, "k"), value);
}

TEST(FaultStore, SameSeedSameOutcome) {
  FaultStore store;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        store.Write("k" + std::to_string(i), std::string(1000, 'x'), kUnsynced)
            .ok());
  }
  const auto listing = [&](uint64_t seed) {
    return conformance::Listing(*store.AfterCrash(seed), "");
  };
  EXPECT_EQ(listing(5), listing(5));
  EXPECT_NE(listing(5), listing(6));
}

// SmallSave syncs in a correct order. With a wrong order, this test would fail.
TEST(FaultStore, ACorrectCommitSurvivesACrashAtEveryOperation) {
  for (uint64_t k = 1; k <= 7; ++k) {
    FaultStore store(
        {.seed = k, .fail_at = k, .sticky = true, .torn_writes = true});
    const bool saved = SmallSave(store).ok();
    for (int seed = 0; seed < 100; ++seed) {
      const auto left = store.AfterCrash(seed);
      const bool committed = Contents(*left, "marker") == "done";
      EXPECT_TRUE(committed || !saved);
      if (!committed) continue;
      EXPECT_EQ(Contents(*left, "d/0"), "data");
      EXPECT_EQ(Contents(*left, "meta"), "m");
    }
  }
}

TEST(FaultStore, ACommitWithoutSyncNamesIsCaught) {
  FaultStore store;
  ASSERT_TRUE(store.Write("meta", "m", kInPlace).ok());
  ASSERT_TRUE(store.Write("marker", "done").ok());
  EXPECT_TRUE(Outcomes(store, "meta").contains("<NOT_FOUND>"));
}

}  // namespace
}  // namespace holdfast
