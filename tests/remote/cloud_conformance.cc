// Tests the contracts of Bucket and Store on a real server:
//
//   cloud_conformance s3://bucket/prefix [--gtest_...]
//
// The environment has the endpoint and the credentials, as users set them. The
// bucket must exist. Everything is written below a prefix that no earlier run
// has used, and removed at the end. HOLDFAST_TEST_MANY_KEYS is the number of
// keys that the test of pages writes (default 1100). HOLDFAST_TEST_UTF8_KEYS=1
// means that the server accepts only UTF-8 keys without line ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "conformance/bucket_conformance.h"
#include "conformance/store_conformance.h"
#include "stores/cloud/bucket_store.h"
#include "stores/place/bucket_registry.h"

namespace holdfast {
namespace {

std::shared_ptr<Bucket> tested_bucket;
std::string tested_prefix;  // the prefix of this run, such as "a/b/"

std::string NewPrefix() {
  static int count = 0;
  return tested_prefix + std::to_string(++count) + "/";
}

struct RealBuckets {
  std::shared_ptr<Bucket> Make() { return tested_bucket; }
  std::string prefix() const { return prefix_; }
  bool keeps_conditions() const { return true; }
  bool loses_answers() const { return false; }
  int many_key_count() const {
    const char* count = std::getenv("HOLDFAST_TEST_MANY_KEYS");
    return count == nullptr ? 1100 : std::atoi(count);
  }

 private:
  const std::string prefix_ = NewPrefix();
};

struct RealStores {
  static bool keys_are_utf8() {
    return std::getenv("HOLDFAST_TEST_UTF8_KEYS") != nullptr;
  }
  std::unique_ptr<Store> Make() {
    std::string root = NewPrefix();
    root.pop_back();
    return std::make_unique<BucketStore>(tested_bucket, root);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Real, BucketConformance, RealBuckets);
INSTANTIATE_TYPED_TEST_SUITE_P(Real, StoreConformance, RealStores);

// An object that is larger than one request is written by several threads and
// read in ranges.
TEST(RealStoreTest, LargeObjectsStreamBothWays) {
  BucketStore store(tested_bucket, NewPrefix() + "large");
  const std::string content = conformance::Pattern(40'000'003, 5);
  for (const bool sync : {true, false}) {
    auto writer = store.Create("d/k");
    ASSERT_TRUE(writer.ok());
    constexpr uint64_t kPiece = 1'000'000;
    std::atomic<uint64_t> next{0};
    std::atomic<int> failures{0};
    conformance::InThreads(4, [&](int) {
      for (uint64_t at = next.fetch_add(kPiece); at < content.size();
           at = next.fetch_add(kPiece)) {
        const std::string_view piece =
            std::string_view(content).substr(at, kPiece);
        if (!(*writer)->WriteAt(at, {&piece, 1}).ok()) ++failures;
      }
    });
    ASSERT_EQ(failures, 0);
    const Status status = (*writer)->Finish(sync);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const Result<Bytes> whole = store.Read("d/k");
    ASSERT_TRUE(whole.ok()) << whole.status().ToString();
    EXPECT_TRUE(whole->view() == content);
  }
  EXPECT_TRUE(store.Flush().ok());
  std::string tail(17'000'000, '?');
  ASSERT_TRUE(store.ReadInto("d/k", content.size() - tail.size(), tail).ok());
  EXPECT_TRUE(tail == content.substr(content.size() - tail.size()));
}

TEST(RealStoreTest, AnUnfinishedWriterLeavesNoUpload) {
  const std::string root = NewPrefix() + "gone";
  BucketStore store(tested_bucket, root);
  const std::string content = conformance::Pattern(35'000'000, 6);
  const std::string_view piece = content;
  auto writer = store.Create("k");
  ASSERT_TRUE((*writer)->WriteAt(0, {&piece, 1}).ok());
  writer->reset();
  EXPECT_EQ(conformance::Contents(store, "k"), "<NOT_FOUND>");
  const auto left = tested_bucket->ListUploads(root);
  ASSERT_TRUE(left.ok()) << left.status().ToString();
  EXPECT_TRUE(left->empty());
}

TEST(RealStoreTest, QueuedCreationsHaveOneWinner) {
  const std::string root = NewPrefix() + "queued";
  std::atomic<int> winners{0}, losers{0};
  conformance::InThreads(8, [&](int i) {
    BucketStore store(tested_bucket, root);
    const Status queued = store.Write("k", "of " + std::to_string(i),
                                      {.must_create = true, .may_queue = true});
    EXPECT_TRUE(queued.ok()) << queued.ToString();
    const Status status = store.Flush();
    if (status.ok()) ++winners;
    if (status.code() == StatusCode::kAlreadyExists) ++losers;
  });
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(losers, 7);
}

Status RemoveAll() {
  ListRequest request;
  request.prefix = tested_prefix;
  while (true) {
    const Result<ListPage> page = tested_bucket->List(request);
    if (!page.ok()) return page.status();
    if (page->objects.empty()) return {};
    std::vector<std::string> keys;
    for (const ObjectEntry& entry : page->objects) keys.push_back(entry.key);
    const Status status = tested_bucket->DeleteAll(keys);
    if (!status.ok()) return status;
  }
}

int Run(const std::string& url) {
  Result<BucketPlace> place = BucketRegistry::Default().Find(url);
  if (!place.ok()) {
    std::fprintf(stderr, "%s\n", place.status().ToString().c_str());
    return 2;
  }
  tested_bucket = place->bucket;
  tested_prefix =
      place->prefix() + "run-" + std::to_string(std::random_device()()) + "/";
  const int failed = RUN_ALL_TESTS();
  const Status removed = RemoveAll();
  if (!removed.ok()) {
    std::fprintf(stderr, "removing %s: %s\n", tested_prefix.c_str(),
                 removed.ToString().c_str());
    return 1;
  }
  return failed;
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: cloud_conformance s3://bucket/prefix\n");
    return 2;
  }
  return holdfast::Run(argv[1]);
}
