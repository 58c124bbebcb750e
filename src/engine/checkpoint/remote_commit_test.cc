// Tests what a save to an object store leaves when a process dies, a request
// fails, or another process saves to the same path, at each of the save's
// requests.
#include "engine/commit/remote_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/commit/lease.h"
#include "ground/base/crc32c.h"
#include "holdfast/checkpoint.h"
#include "holdfast/detail/commit.h"
#include "holdfast/pending_save.h"
#include "twins/local_ranks.h"
#include "twins/mem_bucket.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// With sanitizers each point takes ten times as long, so a sample must do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kPointStep = 5;
#else
constexpr uint64_t kPointStep = 1;
#endif

constexpr int64_t kElements = 40 << 10;  // more than one part of an upload

// Returns a tree with `number` in each of its leaves.
Tree NumberedTree(int number) {
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) {
    values[i] = static_cast<float>((i * 7919 + number) % 65521);
  }
  const Array array =
      Array::FromBytes(DType::kFloat32, {kElements / 8, 8}, values.data());
  return Tree::Dict({{"empty", Tree::Dict()},
                     {"n", Tree(array)},
                     {"name", Tree("number " + std::to_string(number))},
                     {"step", Tree(int64_t{number})},
                     {"w", Tree::JaxArray(array)}});
}

// Returns the leaves in order as text, with checksums in place of arrays.
std::string TextOfTree(const Tree& tree) {
  if (!tree.is_leaf()) {
    std::string text = "{";
    for (size_t i = 0; i < tree.size(); ++i) {
      if (!tree.keys().empty()) text += tree.keys()[i] + ": ";
      text += TextOfTree(tree.children()[i]) + ", ";
    }
    return text + "}";
  }
  switch (tree.leaf_kind()) {
    case LeafKind::kArray: {
      const Array& array = tree.array();
      return "array of " + std::to_string(array.byte_count()) + " bytes " +
             std::to_string(Crc32c(
                 std::string_view(static_cast<const char*>(array.view().data),
                                  array.byte_count())));
    }
    case LeafKind::kScalar:
      return "scalar " + std::to_string(Crc32c(tree.scalar().view()));
    case LeafKind::kString:
      return tree.text();
    default:
      return "?";
  }
}

std::string TextOfLoaded(const std::string& path) {
  LoadOptions options;
  options.run.threads = 1;
  const Result<LoadResult> loaded = LoadCheckpoint(Place(path), options);
  return loaded.ok() ? TextOfTree(loaded->tree) : loaded.status().ToString();
}

SaveOptions QuietOptions(bool overwrite = false) {
  SaveOptions options;
  options.run.threads = 1;
  options.compression = Compression::kNone;
  options.overwrite = overwrite;
  return options;
}

Status SaveNumber(const std::string& path, int number, bool overwrite = false) {
  return Save(path, NumberedTree(number), QuietOptions(overwrite)).status();
}

MemoryBucketOptions SmallParts(bool is_gcs) {
  MemoryBucketOptions options =
      is_gcs ? MemoryBucketOptions::GcsLike() : MemoryBucketOptions::S3Like();
  options.part_bytes = 64 << 10;
  options.traits.put_bytes_max = 64 << 10;
  return options;
}

// One bucket with two processes: mem://one/… and mem://two/… are the same
// objects, each with its own faults.
class RemoteCommitTest : public ::testing::TestWithParam<bool> {
 protected:
  RemoteCommitTest() {
    SetLeaseSleepForTest([this](double seconds) {
      memory_->AdvanceTime(static_cast<int64_t>(seconds * 1e9));
    });
    // A fresh client has cached no files, so it must request them.
    BucketRegistry::Default().Register("mem", [this](const std::string& root,
                                                     const RemoteOptions&) {
      return Result<std::shared_ptr<Bucket>>(root == "mem://two" ? two_ : one_);
    });
  }
  ~RemoteCommitTest() override { SetLeaseSleepForTest(nullptr); }

  static std::string One(const std::string& name) {
    return "mem://one/run/" + name;
  }
  static std::string Two(const std::string& name) {
    return "mem://two/run/" + name;
  }

  // Returns the keys of all objects. An object with a random name is listed by
  // its directory.
  std::multiset<std::string> Keys() const {
    std::multiset<std::string> keys;
    ListRequest request;
    do {
      const Result<ListPage> page = memory_->List(request);
      EXPECT_TRUE(page.ok()) << page.status().ToString();
      for (const ObjectEntry& object : page->objects) {
        const size_t data = object.key.rfind("/d/");
        keys.insert(data == std::string::npos ? object.key
                                              : object.key.substr(0, data + 3));
      }
      request.page_token = page->next_page_token;
    } while (!request.page_token.empty());
    return keys;
  }
  size_t UploadCount() const {
    const auto uploads = memory_->ListUploads("");
    return uploads.ok() ? uploads->size() : 0;
  }
  void StartOver() {
    std::vector<std::string> keys;
    ListRequest request;
    request.entry_count_max = 1000;
    const Result<ListPage> page = memory_->List(request);
    for (const ObjectEntry& object : page->objects) keys.push_back(object.key);
    ASSERT_TRUE(memory_->DeleteAll(keys).ok());
    const auto uploads = memory_->ListUploads("");
    for (const UnfinishedUpload& upload : *uploads) {
      ASSERT_TRUE(memory_->AbortUpload(upload).ok());
    }
    one_->SetFaults({});
    two_->SetFaults({});
  }
  uint64_t RequestsOf(const std::function<void()>& run) {
    one_->SetFaults({});
    one_->ResetCounters();
    run();
    return one_->counters().request_count();
  }

  const std::shared_ptr<MemoryBucket> memory_ =
      std::make_shared<MemoryBucket>(SmallParts(GetParam()));
  const std::shared_ptr<FaultBucket> one_ =
      std::make_shared<FaultBucket>(memory_);
  const std::shared_ptr<FaultBucket> two_ =
      std::make_shared<FaultBucket>(memory_);
  const std::string old_ = TextOfTree(NumberedTree(1));
  const std::string new_ = TextOfTree(NumberedTree(2));
};

TEST_P(RemoteCommitTest, SavesAndLoadsEveryLayout) {
  int number = 0;
  for (const Format format : {Format::kOrbax, Format::kOrbaxV1}) {
    for (const bool use_ocdbt : {true, false}) {
      for (const int zarr_format : {2, 3}) {
        const std::string path = One(std::to_string(++number));
        SaveOptions options = QuietOptions();
        options.format = format;
        options.use_ocdbt = use_ocdbt;
        options.zarr_format = zarr_format;
        const Status saved = Save(path, NumberedTree(1), options).status();
        ASSERT_TRUE(saved.ok()) << saved.ToString();
        EXPECT_TRUE(*IsCheckpointFinalized(path));
        const std::string loaded = TextOfLoaded(path);
        EXPECT_THAT(loaded, HasSubstr(old_.substr(1, old_.size() - 2)));
        const auto report = VerifyCheckpoint(Place(path));
        ASSERT_TRUE(report.ok()) << report.status().ToString();
        EXPECT_TRUE(report->damages.empty())
            << report->damages[0].status.ToString();
        EXPECT_EQ(SaveNumber(path, 2).code(), StatusCode::kAlreadyExists);
        EXPECT_FALSE(HasLease(Place(path)));
      }
    }
  }
  const auto steps = ListSteps("mem://one/run");
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ(steps->size(), 8u);
  EXPECT_EQ(UploadCount(), 0u);
}

TEST_P(RemoteCommitTest, OverwritesAndClearsUp) {
  ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
  const auto keys = Keys();
  const Status saved = SaveNumber(One("7"), 2, true);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_EQ(TextOfLoaded(One("7")), new_);
  EXPECT_EQ(Keys(), keys);
}

// Requests for the data file, which grows with the data, are not counted.
TEST_P(RemoteCommitTest, CostsTheSameForAnyNumberOfLeaves) {
  const auto requests_of = [&](int leaf_count) {
    std::vector<Tree::Member> members;
    for (int i = 0; i < leaf_count; ++i) {
      const float value = static_cast<float>(i);
      members.emplace_back(
          std::to_string(1000 + i),
          Tree::JaxArray(Array::FromBytes(DType::kFloat32, {1}, &value)));
    }
    one_->SetFaults({});
    const Status saved = Save(One(std::to_string(leaf_count)),
                              Tree::Dict(std::move(members)), QuietOptions())
                             .status();
    EXPECT_TRUE(saved.ok()) << saved.ToString();
    std::vector<std::string> requests;
    for (const std::string& request : one_->requests()) {
      if (request.find("/d/") == std::string::npos) requests.push_back(request);
    }
    return requests;
  };
  (void)requests_of(1);  // finds out what the server supports
  const auto few = requests_of(2);
  const auto many = requests_of(60);  // more would need several parts here
  EXPECT_EQ(few.size(), many.size())
      << ::testing::PrintToString(few) << ::testing::PrintToString(many);
  RecordProperty("requests", static_cast<int>(few.size()));
  EXPECT_LE(few.size(), 32u) << ::testing::PrintToString(few);
}

TEST_P(RemoteCommitTest, OverwritesNothingButACheckpoint) {
  ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
  const std::string_view notes[] = {"mine"};
  ASSERT_TRUE(memory_->Put("run/7/notes.txt", notes).ok());
  const Status refused = SaveNumber(One("7"), 2, true);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("notes.txt"));
  EXPECT_EQ(TextOfLoaded(One("7")), old_);
  EXPECT_EQ(SaveNumber("mem://one/run", 2, true).code(),
            StatusCode::kFailedPrecondition);  // a root of steps
}

TEST_P(RemoteCommitTest, RefusesRenames) {
  SaveOptions options = QuietOptions();
  options.commit_mode = CommitMode::kRename;
  const Status saved = Save(One("7"), NumberedTree(1), options).status();
  EXPECT_EQ(saved.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(saved.message()), HasSubstr("kMarkerFile"));
}

// A checkpoint that other tools have copied there opens by its path, but is not
// a step.
TEST_P(RemoteCommitTest, OpensByItsPathWhatHasNoMarker) {
  ASSERT_TRUE(SaveNumber(One("6"), 1).ok());
  ASSERT_TRUE(SaveNumber(One("7"), 2).ok());
  ASSERT_TRUE(memory_->Delete("run/7/commit_success.txt").ok());
  EXPECT_EQ(TextOfLoaded(One("7")), new_);
  EXPECT_EQ(TextOfLoaded("mem://one/run"), old_);  // the latest step
  EXPECT_FALSE(*IsCheckpointFinalized(One("7")));
}

TEST_P(RemoteCommitTest, ADeadProcessLeavesTheOldOrTheNew) {
  ASSERT_TRUE(SaveNumber(One("6"), 1).ok());
  ASSERT_TRUE(SaveNumber(One("7"), 2).ok());
  const auto whole = Keys();
  uint64_t point_count = 0;
  for (const bool acts : {false, true}) {
    for (uint64_t k = 1;; k += kPointStep) {
      StartOver();
      ASSERT_TRUE(SaveNumber(One("6"), 1).ok());
      one_->SetFaults({.fail_at = k, .acts = acts, .dies = true});
      const Status died = SaveNumber(One("7"), 2);
      const bool has_died = one_->died();
      one_->SetFaults({});
      if (!has_died) {
        EXPECT_TRUE(died.ok()) << died.ToString();
        point_count += k - 1;
        break;
      }
      SCOPED_TRACE("request " + std::to_string(k) + (acts ? " acted" : ""));
      EXPECT_EQ(TextOfLoaded(One("6")), old_);
      const bool is_there = *IsCheckpointFinalized(One("7"));
      const Status opened = LoadCheckpoint(Place(One("7"))).status();
      EXPECT_EQ(opened.ok(), is_there) << opened.ToString();
      EXPECT_EQ(TextOfLoaded("mem://one/run"), is_there ? new_ : old_);
      const Status again = SaveNumber(One("7"), 2, is_there);
      EXPECT_TRUE(again.ok()) << again.ToString();
      EXPECT_EQ(TextOfLoaded(One("7")), new_);
      EXPECT_EQ(Keys(), whole);
      EXPECT_EQ(UploadCount(), 0u);
    }
  }
  RecordProperty("crash_points", static_cast<int>(point_count));
  EXPECT_GT(point_count, 30u);
}

TEST_P(RemoteCommitTest, ADeadOverwriteLeavesTheOldOrTheNew) {
  ASSERT_TRUE(SaveNumber(One("7"), 2).ok());
  const auto whole = Keys();
  uint64_t point_count = 0;
  for (const bool acts : {false, true}) {
    for (uint64_t k = 1;; k += kPointStep) {
      StartOver();
      ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
      one_->SetFaults({.fail_at = k, .acts = acts, .dies = true});
      const Status died = SaveNumber(One("7"), 2, true);
      const bool has_died = one_->died();
      one_->SetFaults({});
      if (!has_died) {
        EXPECT_TRUE(died.ok()) << died.ToString();
        point_count += k - 1;
        break;
      }
      SCOPED_TRACE("request " + std::to_string(k) + (acts ? " acted" : ""));
      memory_->AdvanceTime(int64_t{61} * 1'000'000'000);
      const auto cleaned = CleanupTemporaryPaths("mem://one/run");
      ASSERT_TRUE(cleaned.ok()) << cleaned.status().ToString();
      EXPECT_TRUE(*IsCheckpointFinalized(One("7")));
      const std::string loaded = TextOfLoaded(One("7"));
      EXPECT_TRUE(loaded == old_ || loaded == new_) << loaded;
      EXPECT_EQ(UploadCount(), 0u);
      const Status again = SaveNumber(One("7"), 2, true);
      EXPECT_TRUE(again.ok()) << again.ToString();
      EXPECT_EQ(TextOfLoaded(One("7")), new_);
      EXPECT_EQ(Keys(), whole);
    }
  }
  RecordProperty("crash_points", static_cast<int>(point_count));
}

// One process dies at request j of its save. Another takes over, and dies at
// its own request k.
TEST_P(RemoteCommitTest, ADeadTakeOverIsTakenOver) {
  ASSERT_TRUE(SaveNumber(One("7"), 2).ok());
  const auto whole = Keys();
  uint64_t point_count = 0;
  for (const uint64_t j : {8, 14, 20}) {
    for (uint64_t k = 1;; k += kPointStep) {
      StartOver();
      one_->SetFaults({.fail_at = j, .acts = true, .dies = true});
      ASSERT_FALSE(SaveNumber(One("7"), 1).ok());
      one_->SetFaults({.fail_at = k, .acts = k % 2 == 0, .dies = true});
      const Status died = SaveNumber(One("7"), 1);
      const bool has_died = one_->died();
      one_->SetFaults({});
      if (!has_died) {
        EXPECT_TRUE(died.ok()) << died.ToString();
        point_count += k - 1;
        break;
      }
      SCOPED_TRACE("requests " + std::to_string(j) + ", " + std::to_string(k));
      const bool is_there = *IsCheckpointFinalized(One("7"));
      EXPECT_EQ(LoadCheckpoint(Place(One("7"))).ok(), is_there);
      const Status again = SaveNumber(One("7"), 2, is_there);
      EXPECT_TRUE(again.ok()) << again.ToString();
      EXPECT_EQ(TextOfLoaded(One("7")), new_);
      EXPECT_EQ(Keys(), whole);
      EXPECT_EQ(UploadCount(), 0u);
    }
  }
  RecordProperty("crash_points", static_cast<int>(point_count));
}

// One request fails, before it acts or with its response lost, and the process
// continues. Its save then either succeeds, or reports the reason and leaves
// nothing.
TEST_P(RemoteCommitTest, AFailedRequestLeavesTheOldOrTheNew) {
  for (const bool acts : {false, true}) {
    for (const bool is_overwrite : {false, true}) {
      for (uint64_t k = 1;; k += kPointStep) {
        StartOver();
        if (is_overwrite) {
          ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
        }
        const auto before = Keys();
        one_->ResetCounters();
        one_->SetFaults({.fail_at = k, .acts = acts});
        const Status saved = SaveNumber(One("7"), 2, is_overwrite);
        const bool was_hit = one_->requests().size() >= k;
        one_->SetFaults({});
        if (!was_hit) break;
        SCOPED_TRACE("request " + std::to_string(k) + (acts ? " acted" : "") +
                     ", " + saved.ToString());
        const bool is_there = *IsCheckpointFinalized(One("7"));
        if (saved.ok()) {
          EXPECT_EQ(TextOfLoaded(One("7")), new_);
        } else if (is_there) {
          const std::string loaded = TextOfLoaded(One("7"));
          EXPECT_TRUE(loaded == old_ || loaded == new_) << loaded;
        } else {
          EXPECT_FALSE(LoadCheckpoint(Place(One("7"))).ok());
        }
        memory_->AdvanceTime(int64_t{61} * 1'000'000'000);
        const Status again = SaveNumber(One("7"), 2, is_there || is_overwrite);
        EXPECT_TRUE(again.ok()) << again.ToString();
        EXPECT_EQ(TextOfLoaded(One("7")), new_);
        EXPECT_EQ(UploadCount(), 0u);
      }
    }
  }
}

// A save never notices failed requests that its client resends.
TEST_P(RemoteCommitTest, ResentRequestsAreNoConflicts) {
  for (const bool acts : {false, true}) {
    for (uint64_t k = 1; k < 40; ++k) {
      StartOver();
      one_->SetFaults({.fail_at = k, .acts = acts, .resends = true});
      const Status saved = SaveNumber(One("7"), 2);
      EXPECT_TRUE(saved.ok()) << "request " << k << ": " << saved.ToString();
      EXPECT_EQ(TextOfLoaded(One("7")), new_);
    }
  }
}

// Another process saves, from its first request to its last, before the k-th
// request of this process.
TEST_P(RemoteCommitTest, OfTwoSaversOneWins) {
  uint64_t first_wins = 0;
  uint64_t second_wins = 0;
  for (uint64_t k = 1;; ++k) {
    StartOver();
    std::atomic<uint64_t> request_count = 0;
    Status second;
    bool has_run = false;
    one_->SetHook([&](BucketRequest, std::string_view) {
      if (request_count.fetch_add(1) + 1 == k) {
        has_run = true;
        second = SaveNumber(Two("7"), 2);
      }
      return Status();
    });
    const Status first = SaveNumber(One("7"), 1);
    one_->SetHook(nullptr);
    if (!has_run) {
      EXPECT_TRUE(first.ok()) << first.ToString();
      break;
    }
    SCOPED_TRACE("request " + std::to_string(k) + ": " + first.ToString() +
                 " / " + second.ToString());
    EXPECT_FALSE(first.ok() && second.ok());
    if (!first.ok() && !second.ok()) {
      // The first wrote a name at the very moment when it lost the lease.
      EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
      EXPECT_FALSE(LoadCheckpoint(Place(One("7"))).ok());
      continue;
    }
    first_wins += first.ok();
    second_wins += second.ok();
    EXPECT_EQ(TextOfLoaded(One("7")), first.ok() ? old_ : new_);
    const auto report = VerifyCheckpoint(Place(One("7")));
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_TRUE(report->damages.empty())
        << report->damages[0].file << ": "
        << report->damages[0].status.ToString();
  }
  EXPECT_GT(second_wins, 10 / kPointStep);
  EXPECT_GT(first_wins, 0u);  // the second came while the first committed
}

// The same, for two processes that replace a checkpoint. While the first moves
// and removes objects, no other process may take over and lose its own objects.
TEST_P(RemoteCommitTest, OfTwoOverwritersNoneDestroysTheOthers) {
  const std::string third = TextOfTree(NumberedTree(3));
  uint64_t refused_count = 0, second_wins = 0;
  for (uint64_t k = 1;; k += kPointStep) {
    StartOver();
    ASSERT_TRUE(SaveNumber(One("7"), 3).ok());
    SetLeaseSleepForTest([](double) {});  // a minute does not pass
    std::atomic<uint64_t> request_count = 0;
    Status second = CancelledError("it never began");
    one_->SetHook([&](BucketRequest, std::string_view) {
      if (request_count.fetch_add(1) + 1 == k) {
        second = SaveNumber(Two("7"), 2, true);
      }
      return Status();
    });
    const Status first = SaveNumber(One("7"), 1, true);
    one_->SetHook(nullptr);
    if (second.code() == StatusCode::kCancelled) break;
    SCOPED_TRACE("request " + std::to_string(k) + ": " + first.ToString() +
                 " / " + second.ToString());
    refused_count += second.code() == StatusCode::kAlreadyExists;
    second_wins += second.ok() && !first.ok();
    memory_->AdvanceTime(int64_t{61} * 1'000'000'000);
    ASSERT_TRUE(CleanupTemporaryPaths("mem://one/run").ok());
    EXPECT_EQ(TextOfLoaded(One("7")), first.ok()    ? old_
                                      : second.ok() ? new_
                                                    : third);
    const auto report = VerifyCheckpoint(Place(One("7")));
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_TRUE(report->damages.empty());
    const Status again = SaveNumber(One("7"), 2, true);
    EXPECT_TRUE(again.ok()) << again.ToString();
  }
  EXPECT_GT(refused_count, 5 / kPointStep);
  EXPECT_GT(second_wins, 5 / kPointStep);
}

// A removal that was marked continues only while no process saves there again.
TEST_P(RemoteCommitTest, ARemovalLeavesWhatIsSavedThereSince) {
  ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
  ASSERT_TRUE(MarkForDeletion(Place(One("7"))).ok());
  ASSERT_TRUE(SaveNumber(Two("7"), 2).ok());
  ASSERT_TRUE(RemoveMarked(Place(One("7"))).ok());
  EXPECT_EQ(TextOfLoaded(One("7")), new_);
  ASSERT_TRUE(MarkForDeletion(Place(One("7"))).ok());
  // While the removal runs, another process begins a save, and has to wait.
  SetLeaseSleepForTest([](double) {});
  Status second;
  one_->SetHook([&](BucketRequest kind, std::string_view) {
    if (kind == BucketRequest::kDeleteAll) second = SaveNumber(Two("7"), 3);
    return Status();
  });
  EXPECT_TRUE(RemoveMarked(Place(One("7"))).ok());
  one_->SetHook(nullptr);
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(memory_->object_count(), 0u);
}

// The second save begins before the k-th request of the first save, and pauses
// before its own j-th request until the first save has ended.
TEST_P(RemoteCommitTest, OfTwoInterleavedSaversAtMostOneWins) {
  const uint64_t request_count =
      RequestsOf([&] { ASSERT_TRUE(SaveNumber(One("7"), 1).ok()); });
  for (uint64_t k = 2; k < request_count; k += 3 * kPointStep) {
    for (uint64_t j = 2; j < request_count; j += 3 * kPointStep) {
      StartOver();
      std::atomic<uint64_t> ones = 0;
      std::atomic<uint64_t> twos = 0;
      std::mutex mutex;
      std::condition_variable changed;
      bool first_may_go = false;
      bool first_is_over = false;
      Status second = CancelledError("it never began");
      std::thread other;
      const auto let_first_go = [&] {
        const std::lock_guard lock(mutex);
        first_may_go = true;
        changed.notify_all();
      };
      two_->SetHook([&](BucketRequest, std::string_view) {
        if (twos.fetch_add(1) + 1 == j) {
          let_first_go();
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return first_is_over; });
        }
        return Status();
      });
      one_->SetHook([&](BucketRequest, std::string_view) {
        if (ones.fetch_add(1) + 1 == k) {
          other = std::thread([&] {
            second = SaveNumber(Two("7"), 2);
            let_first_go();
          });
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return first_may_go; });
        }
        return Status();
      });
      const Status first = SaveNumber(One("7"), 1);
      {
        const std::lock_guard lock(mutex);
        first_is_over = true;
        changed.notify_all();
      }
      if (other.joinable()) other.join();
      one_->SetHook(nullptr);
      two_->SetHook(nullptr);
      SCOPED_TRACE("requests " + std::to_string(k) + ", " + std::to_string(j) +
                   ": " + first.ToString() + " / " + second.ToString());
      EXPECT_FALSE(first.ok() && second.ok());
      const Result<LoadResult> loaded = LoadCheckpoint(Place(One("7")));
      EXPECT_EQ(loaded.ok(), first.ok() || second.ok());
      if (loaded.ok()) {
        EXPECT_EQ(TextOfTree(loaded->tree), first.ok() ? old_ : new_);
      }
    }
  }
}

TEST_P(RemoteCommitTest, WhoWasTakenOverIsTold) {
  auto first = PendingSave::Begin(One("7"), {});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_TRUE((*first)->WriteFile("notes.txt", "of the first").ok());
  auto second = PendingSave::Begin(Two("7"), {});
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  const Status late = (*first)->SaveItem("state", NumberedTree(1), {}).status();
  const Status lost = late.ok() ? (*first)->Commit({}) : late;
  EXPECT_EQ(lost.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("taken over by process "));
  first->reset();
  ASSERT_TRUE((*second)->SaveItem("state", NumberedTree(2), {}).ok());
  const Status won = (*second)->Commit({});
  EXPECT_TRUE(won.ok()) << won.ToString();
}

TEST_P(RemoteCommitTest, RefusesServersThatIgnoreConditions) {
  one_->SetFaults({.ignores_conditions = true});
  const Status saved = SaveNumber(One("7"), 1);
  EXPECT_EQ(saved.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(saved.message()),
              HasSubstr("HOLDFAST_ALLOW_UNSAFE_COMMIT=1"));
  EXPECT_EQ(memory_->object_count(), 0u);
  ASSERT_EQ(::setenv("HOLDFAST_ALLOW_UNSAFE_COMMIT", "1", 1), 0);
  const Status unsafe = SaveNumber(One("7"), 1);
  ASSERT_EQ(::unsetenv("HOLDFAST_ALLOW_UNSAFE_COMMIT"), 0);
  EXPECT_TRUE(unsafe.ok()) << unsafe.ToString();
  EXPECT_EQ(TextOfLoaded(One("7")), old_);
}

// A saver tests the server by writing to the lease file. By then a rival may
// have taken the lease, with any version, or may have released it.
TEST_P(RemoteCommitTest, AskingTheServerNeverTakesALeaseFromARival) {
  const std::string key = "run/7/_HOLDFAST_SAVE";
  for (int i = 0; i < 100; ++i) {
    const char digit = static_cast<char>('0' + i % 10);
    StartOver();
    memory_->AdvanceTime(i / 10);  // versions are times here
    const auto fresh = std::make_shared<FaultBucket>(memory_);
    BucketRegistry::Default().Register(
        "mem", [&](const std::string&, const RemoteOptions&) {
          return Result<std::shared_ptr<Bucket>>(fresh);
        });
    int put_count = 0;
    fresh->SetHook([&](BucketRequest kind, std::string_view at) {
      // The first put took the lease, the second tested for absence, and this
      // third one names a version.
      if (kind != BucketRequest::kPut || at != key || ++put_count != 3) {
        return Status();
      }
      std::string version;
      do {
        const std::string_view text = "a rival's";
        version = *memory_->Put(key, {&text, 1});
      } while (version.back() != digit && GetParam());
      return Status();
    });
    const auto taken = SaveLease::Take(Place(One("7")));
    fresh->SetHook(nullptr);
    ASSERT_EQ(put_count, 3);
    EXPECT_EQ(taken->CheckHeld().code(), StatusCode::kFailedPrecondition);
    const GetRequest request{.key = key};
    EXPECT_EQ(memory_->Get({&request, 1})[0]->bytes.view(), "a rival's");
  }
}

TEST_P(RemoteCommitTest, AsksAgainWhenTheLeaseHasGoneWhileTheServerWasAsked) {
  const std::string key = "run/7/_HOLDFAST_SAVE";
  int put_count = 0;
  one_->SetHook([&](BucketRequest kind, std::string_view at) {
    return kind == BucketRequest::kPut && at == key && ++put_count == 2
               ? memory_->Delete(key)
               : Status();
  });
  const auto taken = SaveLease::Take(Place(One("7")));
  one_->SetHook(nullptr);
  ASSERT_TRUE(taken.ok()) << taken.status().ToString();
  EXPECT_EQ(put_count, 5);  // taken, tested, taken again, tested twice
  EXPECT_TRUE(taken->CheckHeld().ok());
}

TEST_P(RemoteCommitTest, WaitsForWhoCommitsAndThenSeesTheMarker) {
  ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
  auto begun = RemoteCommit::Begin(Place(One("8")), false);
  ASSERT_TRUE(begun.ok()) << begun.status().ToString();
  ASSERT_TRUE((*begun)->WriteBegun(5).ok());
  int sleep_count = 0;
  Status second;
  one_->SetHook([&](BucketRequest kind, std::string_view key) {
    const bool is_marker =
        kind == BucketRequest::kPut && key.ends_with("commit_success.txt");
    if (is_marker && sleep_count == 0) {
      SetLeaseSleepForTest([&](double) {
        ++sleep_count;
        memory_->AdvanceTime(int64_t{1} * 1'000'000'000);
      });
      second = SaveNumber(Two("8"), 2);
    }
    return Status();
  });
  const Status first = (*begun)->Finish({}, "{}", "marker");
  one_->SetHook(nullptr);
  // The first save paused for more than a minute, and the second did not wait
  // forever.
  EXPECT_EQ(sleep_count, 60);
  EXPECT_TRUE(second.ok()) << second.ToString();
  EXPECT_FALSE(first.ok());
}

TEST_P(RemoteCommitTest, TheLeaseOfARemovalHidesACheckpoint) {
  ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
  ASSERT_TRUE(MarkForDeletion(Place(One("7"))).ok());
  EXPECT_TRUE(IsMarkedForDeletion(Place(One("7"))));
  EXPECT_EQ(LoadCheckpoint(Place(One("7"))).status().code(),
            StatusCode::kFailedPrecondition);
  const auto cleaned = CleanupTemporaryPaths("mem://one/run");
  ASSERT_TRUE(cleaned.ok());
  EXPECT_THAT(cleaned->removed, ElementsAre(One("7")));
  EXPECT_EQ(memory_->object_count(), 0u);
}

TEST_P(RemoteCommitTest, ReadsWithoutTheRightToList) {
  ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
  one_->SetHook([](BucketRequest kind, std::string_view) {
    return kind == BucketRequest::kList
               ? PermissionDeniedError("s3:ListBucket is not allowed")
               : Status();
  });
  EXPECT_EQ(TextOfLoaded(One("7")), old_);
  const Status saved = SaveNumber(One("8"), 1);
  EXPECT_EQ(saved.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(saved.message()), HasSubstr("s3:ListBucket"));
  one_->SetHook(nullptr);
}

TEST_P(RemoteCommitTest, SaysWhatTheServerSays) {
  ASSERT_TRUE(SaveNumber(One("7"), 1).ok());
  for (const Status& answer : {PermissionDeniedError("the token has expired"),
                               NotFoundError("no such bucket")}) {
    one_->SetHook([&](BucketRequest, std::string_view) { return answer; });
    const Status saved = SaveNumber(One("7"), 2, true);
    EXPECT_EQ(saved.code(), answer.code()) << saved.ToString();
    EXPECT_THAT(std::string(saved.message()),
                HasSubstr(std::string(answer.message())));
    one_->SetHook(nullptr);
    EXPECT_EQ(TextOfLoaded(One("7")), old_);
  }
}

// For small files fetched during opening, the old content would be acceptable.
TEST_P(RemoteCommitTest, WhatChangesWhileItIsReadIsDataLoss) {
  const std::vector<float> values(size_t{3} << 20, 0.5F);
  const Tree tree = Tree::Dict(
      {{"w", Tree(Array::FromBytes(DType::kFloat32, {3 << 10, 1 << 10},
                                   values.data()))}});
  ASSERT_TRUE(Save(One("7"), tree, QuietOptions()).ok());
  const auto opened = OpenCheckpoint(Place(One("7")));
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Result<ListPage> page = memory_->List({});
  for (const ObjectEntry& object : page->objects) {
    if (object.key.find("/d/") != std::string::npos) {
      memory_->Damage(object.key, 100);
    }
  }
  const Status read = (*opened)->Read(0).status();
  EXPECT_EQ(read.code(), StatusCode::kDataLoss) << read.ToString();
}

TEST_P(RemoteCommitTest, RanksSaveTogetherAndDieTogether) {
  const auto save = [&](int number) {
    std::vector<Status> statuses(3);
    OnThreads(3, kPatienceSeconds, [&](ProcessGroup& group) {
      SaveOptions options = QuietOptions();
      options.group = &group;
      statuses[group.rank()] =
          Save(One("7"), NumberedTree(number), options).status();
    });
    for (const Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return Status();
  };
  Status saved = save(1);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_EQ(TextOfLoaded(One("7")), old_);
  const auto whole = Keys();
  for (uint64_t k = 2; k < 60; k += 5) {
    StartOver();
    one_->SetFaults({.fail_at = k, .acts = k % 2 == 0, .dies = true});
    const Status died = save(1);
    const bool has_died = one_->died();
    one_->SetFaults({});
    if (!has_died) break;
    SCOPED_TRACE("request " + std::to_string(k) + ": " + died.ToString());
    if (*IsCheckpointFinalized(One("7"))) continue;
    saved = save(2);
    EXPECT_TRUE(saved.ok()) << saved.ToString();
    EXPECT_EQ(TextOfLoaded(One("7")), new_);
    EXPECT_EQ(Keys(), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Buckets, RemoteCommitTest, ::testing::Bool(),
                         [](const auto& param) {
                           return param.param ? "GcsLike" : "S3Like";
                         });

}  // namespace
}  // namespace holdfast
