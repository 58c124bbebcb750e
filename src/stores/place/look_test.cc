#include "stores/place/look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "stores/place/directory_ops.h"
#include "stores/place/file_walk.h"
#include "twins/mem_bucket.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRoot[] = "mem://test/c";

class LookTest : public ::testing::Test {
 protected:
  void FillCheckpoint(MemBucketForTest& mem) {
    mem.Put("c/_CHECKPOINT_METADATA", "{}");
    mem.Put("c/commit_success.txt", "");
    mem.Put("c/state/_METADATA", "tree");
    mem.Put("c/state/_sharding", "s");
    mem.Put("c/state/array_metadatas/process_0", "p0");
    mem.Put("c/state/d/small", std::string(1000, 's'));
    mem.Put("c/state/d/large", std::string(3 << 20, 'l'));
    mem.Put("c/state/manifest.ocdbt", "m");
    mem.Put("cc/other", "o");
  }
  uint64_t RoundTrips() { return mem_.bucket->counters().round_trips; }

  MemBucketForTest mem_;
};

TEST_F(LookTest, OneListAndOneBatchAnswerAnOpening) {
  FillCheckpoint(mem_);
  mem_.bucket->ResetCounters();
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  EXPECT_EQ(GetPathKind(root).value(), PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(root / "state").value(), PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(root / "state/_METADATA").value(), PathKind::kFile);
  EXPECT_EQ(GetPathKind(root / "x").value(), PathKind::kMissing);
  EXPECT_THAT(ListDirectory(root / "state").value(),
              ElementsAre("_METADATA", "_sharding", "array_metadatas", "d",
                          "manifest.ocdbt"));
  EXPECT_EQ(RoundTrips(), 1u);
  EXPECT_EQ(root.OpenStore()->Read("_CHECKPOINT_METADATA").value().view(),
            "{}");
  const auto item = (root / "state").OpenStore();
  EXPECT_EQ(item->Read("_METADATA").value().view(), "tree");
  EXPECT_EQ(item->Read("_sharding").value().view(), "s");
  EXPECT_EQ(item->Read("array_metadatas/process_0").value().view(), "p0");
  EXPECT_EQ(item->Read("manifest.ocdbt").value().view(), "m");
  EXPECT_EQ(item->Read("d/small", {10, 5}).value().view(), "sssss");
  EXPECT_EQ(item->Stat("d/large").value().byte_count, 3u << 20);
  EXPECT_EQ(item->Read("_strings.json").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(item->Stat("none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(RoundTrips(), 2u);
  EXPECT_EQ(mem_.bucket->counters().of(BucketRequest::kHead), 0u);
  EXPECT_EQ(item->Read("d/large", {5, 2}).value().view(), "ll");
  EXPECT_EQ(RoundTrips(), 3u);
}

// FetchedWith returns the files that are fetched together when `first` is read.
class LookForTest : public LookTest {
 protected:
  static constexpr const char* kKeys[] = {"_CHECKPOINT_METADATA",
                                          "_HOLDFAST_DIGESTS",
                                          "_METADATA",
                                          "commit_success.txt",
                                          "d/root",
                                          "manifest.ocdbt",
                                          "metrics/metrics",
                                          "ocdbt.process_0/d/values",
                                          "ocdbt.process_0/manifest.ocdbt"};

  std::set<std::string> FetchedWith(const std::string& first, LookFor what) {
    const LookScope scope(Place(kRoot), what);
    const auto store = scope.place().OpenStore();
    EXPECT_TRUE(store->Read(first).ok());
    std::set<std::string> fetched;
    for (const std::string key : kKeys) {
      const uint64_t before = RoundTrips();
      EXPECT_EQ(store->Read(key).value().view(), key);
      if (RoundTrips() == before) fetched.insert(key);
    }
    return fetched;
  }
  void SetUp() override {
    for (const std::string key : kKeys) {
      mem_.Put("c/" + key, key);
    }
  }
};

// Opening reads neither a marker next to a list of checksums nor the manifest
// of a database that is part of another database.
TEST_F(LookForTest, ValuesComeAlong) {
  EXPECT_THAT(FetchedWith("_HOLDFAST_DIGESTS", LookFor::kValues),
              ElementsAre("_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS",
                          "_METADATA", "d/root", "manifest.ocdbt",
                          "metrics/metrics", "ocdbt.process_0/d/values"));
}

TEST_F(LookForTest, LeavesWantNoValues) {
  EXPECT_THAT(FetchedWith("_HOLDFAST_DIGESTS", LookFor::kLeaves),
              ElementsAre("_HOLDFAST_DIGESTS", "_METADATA", "d/root",
                          "manifest.ocdbt", "metrics/metrics"));
  // Reading the metadata, which leaves do not need, also fetches the rest.
  EXPECT_THAT(
      FetchedWith("_CHECKPOINT_METADATA", LookFor::kLeaves),
      ElementsAre("_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS", "_METADATA",
                  "d/root", "manifest.ocdbt", "metrics/metrics"));
}

TEST_F(LookForTest, AStepIsItsTimesAndItsMetrics) {
  EXPECT_THAT(FetchedWith("_HOLDFAST_DIGESTS", LookFor::kStep),
              ElementsAre("_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS",
                          "metrics/metrics"));
}

TEST_F(LookForTest, TheMarkerTellsOfAListThatIsGone) {
  ASSERT_TRUE(
      Place("mem://test/c").OpenStore()->Delete("_HOLDFAST_DIGESTS").ok());
  const LookScope scope(Place(kRoot), LookFor::kLeaves);
  const auto store = scope.place().OpenStore();
  ASSERT_TRUE(store->Read("_METADATA").ok());
  const uint64_t before = RoundTrips();
  EXPECT_TRUE(store->Read("commit_success.txt").ok());
  EXPECT_EQ(RoundTrips(), before);
}

TEST_F(LookTest, WhatIsListedOfTheStoreIsWhatIsThere) {
  FillCheckpoint(mem_);
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  std::vector<std::string> keys;
  ASSERT_TRUE((root / "state")
                  .OpenStore()
                  ->List("d/",
                         [&](std::string_view key, const ObjectInfo& info) {
                           keys.push_back(std::string(key) + " " +
                                          std::to_string(info.byte_count));
                           return Status();
                         })
                  .ok());
  EXPECT_THAT(keys, ElementsAre("d/large 3145728", "d/small 1000"));
}

// The answers equal those without a Look, no matter how much the flat listing
// saw.
TEST_F(LookTest, AnswersAsTheBucketWouldWhenThereAreThousands) {
  for (int i = 0; i < 1500; ++i) {
    const std::string name = std::to_string(1000 + i);
    mem_.Put("c/a/" + name, "x");
    mem_.Put("c/m" + name + "/.zarray", "{}");
    mem_.Put("c/m" + name + "/0.0", "data");
  }
  mem_.Put("c/z/_METADATA", "late");
  std::vector<std::string> names = {""};
  for (const char* name : {"a", "a/1000", "a/2499", "a/2500", "m1000",
                           "m1000/0.0", "m1000/1.0", "m2499", "m2499/.zarray",
                           "m2499/x", "m2500", "z", "z/_METADATA", "zz"}) {
    names.push_back(name);
  }
  for (const std::string& name : names) {
    const Place bare = Place(kRoot) / name;
    const auto bare_kind = GetPathKind(bare);
    const auto bare_entries = ListDirectory(bare);
    const LookScope scope{Place(kRoot)};
    const Place seen = scope.place() / name;
    EXPECT_EQ(GetPathKind(seen).value(), bare_kind.value()) << name;
    const auto entries = ListDirectory(seen);
    ASSERT_EQ(entries.ok(), bare_entries.ok()) << name;
    if (entries.ok()) {
      EXPECT_EQ(*entries, *bare_entries) << name;
    }
  }
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  mem_.bucket->ResetCounters();
  EXPECT_EQ((root / "z").OpenStore()->Read("_METADATA").value().view(), "late");
  EXPECT_LE(RoundTrips(), 4u);
}

TEST_F(LookTest, AnObjectReplacedMeanwhileIsDataLoss) {
  FillCheckpoint(mem_);
  std::shared_ptr<Store> store;
  {
    const LookScope scope{Place(kRoot)};
    const Place& root = scope.place();
    ASSERT_TRUE(LeadsToDirectory(root).value());
    store = (root / "state").OpenStore();
  }
  mem_.Put("c/state/d/large", std::string(3 << 20, 'L'));
  EXPECT_EQ(store->Read("d/large", {0, 10}).status().code(),
            StatusCode::kDataLoss);
}

TEST_F(LookTest, WhoeverWritesSeesWhatHeWrote) {
  FillCheckpoint(mem_);
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  ASSERT_TRUE(LeadsToDirectory(root).value());
  const auto store = root.OpenStore();
  ASSERT_TRUE(store->Write("new", "content").ok());
  EXPECT_EQ(GetPathKind(root / "new").value(), PathKind::kFile);
  EXPECT_EQ(store->Read("new").value().view(), "content");
  ASSERT_TRUE(RemoveTree(root).ok());
  EXPECT_EQ(GetPathKind(root).value(), PathKind::kMissing);
}

TEST_F(LookTest, NothingIsKeptBetweenScopes) {
  FillCheckpoint(mem_);
  {
    const LookScope scope{Place(kRoot)};
    const Place& root = scope.place();
    EXPECT_EQ(GetPathKind(root / "new").value(), PathKind::kMissing);
  }
  mem_.Put("c/new", "");
  EXPECT_EQ(GetPathKind(Place("mem://test/c/new")).value(), PathKind::kFile);
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  EXPECT_EQ(GetPathKind(root / "new").value(), PathKind::kFile);
}

TEST_F(LookTest, ABareDatabaseIsSeenWithWhatLiesBesideIt) {
  FillCheckpoint(mem_);
  mem_.bucket->ResetCounters();
  const LookScope scope(Place("mem://test/c/state/manifest.ocdbt"));
  EXPECT_EQ(GetPathKind(scope.place()).value(), PathKind::kFile);
  const auto store = scope.place().parent().OpenStore();
  EXPECT_EQ(store->Read("manifest.ocdbt").value().view(), "m");
  EXPECT_EQ(RoundTrips(), 2u);
}

TEST_F(LookTest, AFileIsNoDirectory) {
  FillCheckpoint(mem_);
  const LookScope scope(Place("mem://test/cc/other"));
  EXPECT_EQ(GetPathKind(scope.place()).value(), PathKind::kFile);
  EXPECT_FALSE(LeadsToDirectory(scope.place()).value());
  const LookScope none(Place("mem://test/none"));
  EXPECT_EQ(GetPathKind(none.place()).value(), PathKind::kMissing);
  EXPECT_EQ(ListDirectory(none.place()).status().code(), StatusCode::kNotFound);
}

MemoryBucketOptions WebServer() {
  MemoryBucketOptions options = MemoryBucketOptions::S3Like();
  options.traits.can_list = false;
  return options;
}

TEST_F(LookTest, WithoutListsTheKnownNamesAreAskedFor) {
  MemBucketForTest web(WebServer());
  FillCheckpoint(web);
  web.Put("c/_CHECKPOINT_METADATA", R"({"item_handlers": {"state": "x"}})");
  web.Put("c/state/_HOLDFAST_DIGESTS",
          R"({"files":[["d/large",3145728,"00"],["../x",1,"00"],[1]]})");
  web.bucket->ResetCounters();
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  EXPECT_EQ(GetPathKind(root).value(), PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(root / "state").value(), PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(root / "state/manifest.ocdbt").value(),
            PathKind::kFile);
  EXPECT_EQ(GetPathKind(root / "state/zarr.json").value(), PathKind::kMissing);
  const auto item = (root / "state").OpenStore();
  EXPECT_EQ(item->Read("_METADATA").value().view(), "tree");
  EXPECT_EQ(item->Stat("d/large").value().byte_count, 3u << 20);
  EXPECT_EQ(web.bucket->counters().round_trips, 2u);
  EXPECT_THAT(
      ListDirectory(root).value(),
      ElementsAre("_CHECKPOINT_METADATA", "commit_success.txt", "state"));
  EXPECT_EQ(item->Read("d/small", {0, 3}).value().view(), "sss");
  // This name is not one of the known names.
  EXPECT_EQ(GetPathKind(root / "state/d/small").value(), PathKind::kFile);
}

// The model is requested only if nothing else exists, and its content is not
// read.
TEST_F(LookTest, WithoutListsAModelInOneFileIsFound) {
  MemBucketForTest web(WebServer());
  web.Put("c/model.safetensors", "weights");
  web.Put("one.npz", "arrays");
  const LookScope scope{Place(kRoot)};
  web.bucket->ResetCounters();
  EXPECT_EQ(GetPathKind(scope.place()).value(), PathKind::kDirectory);
  EXPECT_THAT(ListDirectory(scope.place()).value(),
              ElementsAre("model.safetensors"));
  EXPECT_EQ(web.bucket->counters().read_bytes, 0u);
  EXPECT_EQ(GetPathKind(LookScope(Place("mem://test/one.npz")).place()).value(),
            PathKind::kFile);
  EXPECT_EQ(GetPathKind(LookScope(Place("mem://test/none")).place()).value(),
            PathKind::kMissing);
}

TEST_F(LookTest, WhoMayReadAndNotListCanOpen) {
  FillCheckpoint(mem_);
  mem_.Put("c/_CHECKPOINT_METADATA", R"({"item_handlers": {"state": "x"}})");
  mem_.bucket->SetHook([](BucketRequest kind, std::string_view) {
    return kind == BucketRequest::kList ? PermissionDeniedError("no lists")
                                        : Status();
  });
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  EXPECT_EQ(GetPathKind(root).value(), PathKind::kDirectory);
  EXPECT_EQ((root / "state").OpenStore()->Read("manifest.ocdbt").value().view(),
            "m");
}

TEST_F(LookTest, WhoMayDoNothingIsTold) {
  FillCheckpoint(mem_);
  mem_.bucket->SetHook([](BucketRequest, std::string_view) {
    return PermissionDeniedError("wrong key");
  });
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  const Status status = GetPathKind(root).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.ToString(), HasSubstr("wrong key"));
}

TEST_F(LookTest, ServersThatAreNotTrustedSayNothing) {
  MemBucketForTest web(WebServer());
  FillCheckpoint(web);
  web.bucket->SetHook([](BucketRequest, std::string_view) {
    return FailedPreconditionError("the certificate is not trusted");
  });
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  EXPECT_THAT(GetPathKind(root).status().ToString(), HasSubstr("not trusted"));
  EXPECT_THAT(ListDirectory(root).status().ToString(),
              HasSubstr("not trusted"));
}

TEST_F(LookTest, MetadataTooLargeToBeFetchedIsThere) {
  MemBucketForTest web(WebServer());
  FillCheckpoint(web);
  web.Put("c/_CHECKPOINT_METADATA", R"({"item_handlers": {"state": "x"}})");
  web.bucket->SetHook([](BucketRequest kind, std::string_view key) {
    const bool is_too_large =
        kind == BucketRequest::kGet && key.ends_with("state/_METADATA");
    return is_too_large ? ResourceExhaustedError("too large") : Status();
  });
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  EXPECT_EQ(GetPathKind(root / "state/_METADATA").value(), PathKind::kFile);
}

TEST_F(LookTest, AFailureIsNotKnowledge) {
  FillCheckpoint(mem_);
  mem_.bucket->SetFaults({.fail_at = 1});
  const LookScope scope{Place(kRoot)};
  const Place& root = scope.place();
  EXPECT_EQ(GetPathKind(root).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(GetPathKind(root).value(), PathKind::kDirectory);
}

}  // namespace
}  // namespace holdfast
