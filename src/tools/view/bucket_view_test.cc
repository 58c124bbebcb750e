// Tests views in buckets: which copies the server makes, which bytes are read,
// and which objects are left if the process dies at any request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/leaf_lines.h"
#include "checkpoint/test_trees.h"
#include "engine/commit/lease.h"
#include "ground/base/crc32c.h"
#include "holdfast/detail/commit.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/remote.h"
#include "holdfast/tools/view.h"
#include "twins/mem_bucket.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Requests at which a process dies. Under sanitizers each takes ten times as
// long, so only every fifth is tested.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kPointStep = 5;
#else
constexpr uint64_t kPointStep = 1;
#endif

const std::string kModel = "mem://test/models/m";
const std::string kView = "mem://test/run/view";
constexpr uint64_t kTensorBytes = 400'000;

Tree TwoArrays() {
  return Tree::Dict({{"a", Tree(RandomArray(DType::kFloat32, {600, 100}, 1))},
                     {"b", Tree(RandomArray(DType::kInt64, {20000}, 3))}});
}

ViewOptions ByCopies() {
  ViewOptions options;
  options.link = LinkKind::kCopy;
  options.run.threads = 1;
  return options;
}

// Tests run with both kinds of object stores.
class BucketViewTest : public ::testing::TestWithParam<bool> {
 protected:
  BucketViewTest() {
    SetLeaseSleepForTest([this](double seconds) {
      mem_.memory->AdvanceTime(static_cast<int64_t>(seconds * 1e9));
    });
    SaveOptions save;
    save.compression = Compression::kNone;
    EXPECT_TRUE(Save(kSaved, TwoArrays(), save).ok());
    ConvertOptions convert;
    convert.format = Format::kSafetensors;
    convert.shard_bytes_max = 250'000;
    const std::string local = directory_.path() + "/m";
    const auto converted = Convert(kSaved, local, convert);
    EXPECT_TRUE(converted.ok()) << converted.status().ToString();
    const auto copied = Copy(local, kModel);
    EXPECT_TRUE(copied.ok()) << copied.status().ToString();
    mem_.Put("models/m/config.json", "{\"heads\": 4}");
    want_ = LinesOf(kModel);
    before_ = Objects("models/");
  }
  ~BucketViewTest() override { SetLeaseSleepForTest(nullptr); }

  // Keys with sizes and checksums.
  using State = std::map<std::string, std::pair<uint64_t, uint32_t>>;
  State Objects(const std::string& prefix) {
    State objects;
    ListRequest request{.prefix = prefix};
    do {
      const Result<ListPage> page = mem_.memory->List(request);
      EXPECT_TRUE(page.ok()) << page.status().ToString();
      for (const ObjectEntry& object : page->objects) {
        objects[object.key] = {object.byte_count,
                               Crc32c(mem_.Content(object.key))};
      }
      request.page_token = page->next_page_token;
    } while (!request.page_token.empty());
    return objects;
  }
  void RemoveAll(const std::string& prefix) {
    for (const auto& [key, state] : Objects(prefix)) {
      EXPECT_TRUE(mem_.memory->Delete(key).ok());
    }
  }
  // Returns LinesOf(path), or "nothing" if no checkpoint exists.
  static std::vector<std::string> LinesOrNothing(const std::string& path) {
    if (Open(path).status().code() == StatusCode::kNotFound) return {"nothing"};
    return LinesOf(path);
  }
  void ExpectView(const std::string& path) {
    EXPECT_EQ(LinesOf(path), want_);
    const auto verified = Verify(path);
    ASSERT_TRUE(verified.ok()) << verified.status().ToString();
    EXPECT_TRUE(verified->damages.empty())
        << verified->damages[0].status.ToString();
  }

  ScratchDirectory directory_;
  const std::string kSaved = "mem://test/saved";
  MemBucketForTest mem_{GetParam() ? MemoryBucketOptions::GcsLike()
                                   : MemoryBucketOptions::S3Like()};
  std::vector<std::string> want_;
  State before_;
};

INSTANTIATE_TEST_SUITE_P(Stores, BucketViewTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "GcsLike" : "S3Like";
                         });

TEST_P(BucketViewTest, TheServerCopiesAndNoTensorIsRead) {
  mem_.bucket->ResetCounters();
  const auto view = View(kModel, kView, ByCopies());
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(view->referred_leaf_count, 2u);
  EXPECT_EQ(view->source_file_count, 2u);
  const BucketCounters counters = mem_.bucket->counters();
  // The server copied two shards, the index and config.json.
  EXPECT_EQ(counters.of(BucketRequest::kCopy), 4u);
  EXPECT_LT(counters.read_bytes, kTensorBytes / 10);
  EXPECT_LT(counters.written_bytes, kTensorBytes / 10);
  ExpectView(kView);
  EXPECT_EQ(Objects("models/"), before_);
  // The directory is a safetensors model, too.
  EXPECT_EQ(mem_.Content("run/view/config.json"), "{\"heads\": 4}");
  EXPECT_EQ(LinesOf(kView + "/model.safetensors.index.json"), want_);
  // The view does not need its source any more.
  RemoveAll("models/");
  ExpectView(kView);
}

TEST_P(BucketViewTest, OtherFormatsLieBelowSources) {
  const std::vector<std::string> want = LinesOf(kSaved);
  const auto view = View(kSaved, kView, ByCopies());
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(LinesOf(kView), want);
  uint64_t source_count = 0;
  for (const auto& [key, state] : Objects("run/view/")) {
    if (key.find("/sources/") != std::string::npos) ++source_count;
  }
  EXPECT_EQ(source_count, view->source_file_count);
  ASSERT_TRUE(View(kView, kView + "2", ByCopies()).ok());
  EXPECT_EQ(LinesOf(kView + "2"), want);
}

TEST_P(BucketViewTest, CopiesAreAskedFor) {
  ASSERT_TRUE(Save(kView, TwoArrays()).ok());
  const auto run = Objects("run/");
  mem_.bucket->ResetCounters();
  for (const LinkKind link : {LinkKind::kSymbolic, LinkKind::kHard}) {
    ViewOptions options = ByCopies();
    options.link = link;
    options.overwrite = true;
    const Status status = View(kModel, kView, options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    uint64_t byte_count = 0;
    for (const auto& [key, state] : before_) {
      if (key.ends_with(".safetensors")) byte_count += state.first;
    }
    EXPECT_THAT(
        status.ToString(),
        HasSubstr("2 objects of " + std::to_string(byte_count) + " bytes"));
    EXPECT_THAT(status.ToString(), HasSubstr("--link copy"));
  }
  EXPECT_EQ(Objects("run/"), run);
  EXPECT_EQ(mem_.bucket->counters().written_bytes, 0u);
}

TEST_P(BucketViewTest, WhatCannotBeReferredToIsRefused) {
  const std::string local = directory_.path() + "/m";
  for (const auto& [source, target] :
       std::vector<std::pair<std::string, std::string>>{
           {local, kView}, {kModel, directory_.path() + "/view"}}) {
    const Status status = View(source, target, ByCopies()).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.ToString(), HasSubstr("holdfast convert"));
  }
  const auto other = std::make_shared<MemoryBucket>();
  BucketRegistry::Default().Register(
      "other", [&](const std::string&, const RemoteOptions&) {
        return Result<std::shared_ptr<Bucket>>(other);
      });
  const Status status = View(kModel, "other://b/view", ByCopies()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.ToString(), HasSubstr("within one bucket"));
  // Overwriting the source or a directory above it would remove the source.
  ViewOptions options = ByCopies();
  options.overwrite = true;
  const auto saved = Objects("saved/");
  for (const std::string& path : {kSaved, std::string("mem://test")}) {
    EXPECT_EQ(View(kSaved, path, options).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Objects("saved/"), saved);
}

TEST_P(BucketViewTest, ASourceThatChangesMeanwhileIsNoticed) {
  bool is_changed = false;
  mem_.bucket->SetHook([&](BucketRequest kind, std::string_view key) {
    if (kind == BucketRequest::kCopy && key.ends_with(".safetensors") &&
        !is_changed) {
      is_changed = true;
      mem_.memory->Damage("models/m/model-00002-of-00002.safetensors", 200);
    }
    return Status();
  });
  const Status status = View(kModel, kView, ByCopies()).status();
  mem_.bucket->SetHook(nullptr);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), HasSubstr("model-00002-of-00002"));
  EXPECT_THAT(Objects("run/"), IsEmpty());
}

TEST_P(BucketViewTest, ACopyThatIsGoneOrShortIsNoticed) {
  ASSERT_TRUE(View(kModel, kView, ByCopies()).ok());
  const std::string key = "run/view/model-00001-of-00002.safetensors";
  const std::string content = mem_.Content(key);
  mem_.Put(key, content.substr(1));
  EXPECT_THAT(Open(kView).status().ToString(), HasSubstr("has changed"));
  ASSERT_TRUE(mem_.memory->Delete(key).ok());
  for (const Status& status : {Open(kView).status(), Load(kView).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(),
                HasSubstr("copy model-00001-of-00002.safetensors of " + kModel +
                          "/model-00001-of-00002.safetensors is gone"));
  }
  const auto verified = Verify(kView);
  ASSERT_TRUE(verified.ok()) << verified.status().ToString();
  EXPECT_FALSE(verified->damages.empty());
}

TEST_P(BucketViewTest, ChecksumsFindAFlippedBit) {
  ViewOptions options = ByCopies();
  options.checksums = true;
  ASSERT_TRUE(View(kModel, kView, options).ok());
  ExpectView(kView);
  const std::string key = "run/view/model-00001-of-00002.safetensors";
  mem_.memory->Damage(key, mem_.Content(key).size() - 1);
  EXPECT_EQ(Load(kView).status().code(), StatusCode::kDataLoss);
}

TEST_P(BucketViewTest, AnOverwriteOrARemovalKeepsTheSource) {
  ASSERT_TRUE(Save(kView, TwoArrays()).ok());
  ViewOptions options = ByCopies();
  EXPECT_EQ(View(kModel, kView, options).status().code(),
            StatusCode::kAlreadyExists);
  options.overwrite = true;
  for (int i = 0; i < 2; ++i) {
    const auto view = View(kModel, kView, options);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    ExpectView(kView);
  }
  ASSERT_TRUE(Save(kView, TwoArrays(), {.overwrite = true}).ok());
  EXPECT_FALSE(mem_.Has("run/view/model-00001-of-00002.safetensors"));
  EXPECT_EQ(Objects("models/"), before_);
}

// The process dies at each of its requests, before or after the request takes
// effect. The target is empty or holds another checkpoint.
TEST_P(BucketViewTest, ADeathAnywhereLeavesOneOfTheTwo) {
  for (const bool overwrite : {false, true}) {
    ViewOptions options = ByCopies();
    options.overwrite = overwrite;
    const Tree old = Tree::Dict({{"x", Tree(int64_t{5})}});
    const auto Prepare = [&] {
      mem_.bucket->SetFaults({});
      RemoveAll("run/");
      if (overwrite) {
        ASSERT_TRUE(Save(kView, old).ok());
      }
    };
    Prepare();
    const std::vector<std::string> old_lines = LinesOrNothing(kView);
    mem_.bucket->ResetCounters();
    ASSERT_TRUE(View(kModel, kView, options).ok());
    const uint64_t count = mem_.bucket->counters().request_count();
    ASSERT_GT(count, 20u);
    for (uint64_t at = 1; at <= count; at += kPointStep) {
      for (const bool acts : {false, true}) {
        SCOPED_TRACE("request " + std::to_string(at) + " of " +
                     std::to_string(count) + (acts ? ", done" : "") +
                     (overwrite ? ", overwriting" : ""));
        Prepare();
        mem_.bucket->SetFaults({.fail_at = at, .acts = acts, .dies = true});
        (void)View(kModel, kView, options);
        mem_.bucket->SetFaults({});
        const auto cleaned = CleanupTemporaryPaths("mem://test/run");
        ASSERT_TRUE(cleaned.ok() ||
                    cleaned.status().code() == StatusCode::kNotFound)
            << cleaned.status().ToString();
        const std::vector<std::string> left = LinesOrNothing(kView);
        EXPECT_TRUE(left == old_lines || left == want_);
        if (!overwrite && left != want_) {
          EXPECT_THAT(Objects("run/"), IsEmpty());
        }
        EXPECT_EQ(Objects("models/"), before_);
        // The next view succeeds.
        options.overwrite = true;
        const auto again = View(kModel, kView, options);
        EXPECT_TRUE(again.ok()) << again.status().ToString();
        EXPECT_EQ(LinesOf(kView), want_);
        options.overwrite = overwrite;
      }
    }
  }
}

// Converts a view in place. The copy is compared before the view is removed,
// and a process that dies leaves one of the two.
TEST_P(BucketViewTest, AConversionInPlaceMakesACheckpointOfItsOwn) {
  ConvertOptions options;
  options.overwrite = true;
  options.run.threads = 1;
  uint64_t count = 1;
  for (uint64_t at = 0; at <= count; at += at == 0 ? 1 : 3 * kPointStep) {
    SCOPED_TRACE("request " + std::to_string(at));
    RemoveAll("run/");
    ASSERT_TRUE(View(kModel, kView, ByCopies()).ok());
    mem_.bucket->SetFaults(
        {.fail_at = at, .acts = at % 2 == 0, .dies = at > 0});
    mem_.bucket->ResetCounters();
    const auto converted = Convert(kView, kView, options);
    if (at == 0) {
      ASSERT_TRUE(converted.ok()) << converted.status().ToString();
      EXPECT_EQ(converted->checked_bytes, kTensorBytes);
      count = mem_.bucket->counters().request_count();
      ASSERT_GT(count, 50u);
      for (const auto& [key, state] : Objects("run/")) {
        EXPECT_TRUE(key.starts_with("run/view/")) << key;
        EXPECT_FALSE(key.ends_with(".safetensors")) << key;
      }
    }
    mem_.bucket->SetFaults({});
    ASSERT_TRUE(CleanupTemporaryPaths("mem://test/run").ok());
    ExpectView(kView);
    for (const auto& [key, state] : Objects("run/")) {
      EXPECT_TRUE(key.starts_with("run/view/")) << key;
    }
  }
  EXPECT_EQ(Objects("models/"), before_);
}

TEST_P(BucketViewTest, AViewIsMaterialized) {
  ASSERT_TRUE(View(kModel, kView, ByCopies()).ok());
  const auto own = Materialize(kView);
  ASSERT_TRUE(own.ok()) << own.status().ToString();
  EXPECT_FALSE(mem_.Has("run/view/model-00001-of-00002.safetensors"));
  ExpectView(kView);
  EXPECT_EQ(Materialize(kView).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(BucketViewTest, AConversionThatReadsADamagedCopyKeepsTheView) {
  ViewOptions view = ByCopies();
  view.checksums = true;
  ASSERT_TRUE(View(kModel, kView, view).ok());
  const std::string key = "run/view/model-00002-of-00002.safetensors";
  mem_.memory->Damage(key, mem_.Content(key).size() - 1);
  const State before = Objects("run/");
  ConvertOptions options;
  options.overwrite = true;
  EXPECT_EQ(Convert(kView, kView, options).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(Objects("run/"), before);
}

// If a request fails or its answer is lost, View reports that and leaves no
// objects.
TEST_P(BucketViewTest, AFailureAnywhereLeavesNothing) {
  mem_.bucket->ResetCounters();
  ASSERT_TRUE(View(kModel, kView, ByCopies()).ok());
  const uint64_t count = mem_.bucket->counters().request_count();
  for (uint64_t at = 1; at <= count; at += kPointStep) {
    SCOPED_TRACE("request " + std::to_string(at));
    RemoveAll("run/");
    mem_.bucket->SetFaults({.fail_at = at});
    const auto view = View(kModel, kView, ByCopies());
    mem_.bucket->SetFaults({});
    if (!view.ok()) (void)CleanupTemporaryPaths("mem://test/run");
    // If releasing the lease fails, View fails although the view is already
    // committed.
    const bool is_committed = mem_.Has("run/view/commit_success.txt");
    EXPECT_TRUE(is_committed || !view.ok());
    if (is_committed) {
      EXPECT_EQ(LinesOf(kView), want_);
    } else {
      EXPECT_THAT(Objects("run/"), IsEmpty());
    }
  }
}

}  // namespace
}  // namespace holdfast
