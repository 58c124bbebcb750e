// The contract of stores/cloud/bucket.h as one typed test suite, for every
// writable Bucket, in memory or on a real server.
//
//   struct MyFactory {
//     std::shared_ptr<Bucket> Make();  // the bucket under test
//     std::string prefix();            // an unused prefix: "" or "a/b/"
//     bool keeps_conditions() const;   // whether Put obeys its conditions
//     bool loses_answers() const;      // whether requests may be sent twice
//     int many_key_count() const;      // more keys than a page of a list has
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, BucketConformance, MyFactory);
//
// Thread-safety: the bucket is used from up to 16 threads.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/bucket_calls.h"
#include "stores/cloud/bucket.h"

namespace holdfast {

template <typename Factory>
class BucketConformance : public testing::Test {
 protected:
  void SetUp() override {
    bucket_ = factory_.Make();
    ASSERT_NE(bucket_, nullptr);
    prefix_ = factory_.prefix();
  }

  std::string Key(std::string_view name) const {
    return prefix_ + std::string(name);
  }

  Factory factory_;
  std::shared_ptr<Bucket> bucket_;
  std::string prefix_;
};

TYPED_TEST_SUITE_P(BucketConformance);

TYPED_TEST_P(BucketConformance, ObjectsReadBackWithTheirVersion) {
  Bucket& bucket = *this->bucket_;
  const std::string key = this->Key("o/k");
  const std::string_view pieces[] = {"ab", "", "cde"};
  const Result<std::string> version = bucket.Put(key, pieces);
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_NE(*version, "");
  EXPECT_EQ(version->find('"'), std::string::npos);
  const Result<ObjectEntry> entry = bucket.Head(key);
  ASSERT_TRUE(entry.ok()) << entry.status().ToString();
  EXPECT_EQ(entry->key, key);
  EXPECT_EQ(entry->byte_count, 5u);
  EXPECT_EQ(entry->version, *version);
  EXPECT_GT(entry->modified_ns, 1'000'000'000'000'000'000);
  EXPECT_GE(bucket.ServerTimeNs(), entry->modified_ns - 5'000'000'000);
  const GetRequest request{.key = key};
  const Result<GetResult> got = bucket.Get({&request, 1}).front();
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->bytes.view(), "abcde");
  EXPECT_EQ(got->object.byte_count, 5u);
  EXPECT_EQ(got->object.version, *version);
  EXPECT_THAT(bucket.UrlOf(key), testing::HasSubstr(key));
}

TYPED_TEST_P(BucketConformance, RangesAreExact) {
  Bucket& bucket = *this->bucket_;
  using conformance::GetText;
  const std::string key = this->Key("r");
  ASSERT_TRUE(conformance::PutText(bucket, key, "0123456789").ok());
  EXPECT_EQ(GetText(bucket, key, {0, 10}), "0123456789");
  EXPECT_EQ(GetText(bucket, key, {3, 4}), "3456");
  EXPECT_EQ(GetText(bucket, key, {9, kToEnd}), "9");
  EXPECT_EQ(GetText(bucket, key, {10, kToEnd}), "");
  EXPECT_EQ(GetText(bucket, key, {11, kToEnd}), "<OUT_OF_RANGE>");
  EXPECT_EQ(GetText(bucket, key, {8, 3}), "<OUT_OF_RANGE>");
  EXPECT_EQ(GetText(bucket, key, {10, 1}), "<OUT_OF_RANGE>");
  const std::string empty = this->Key("r-empty");
  ASSERT_TRUE(bucket.Put(empty, {}).ok());
  EXPECT_EQ(GetText(bucket, empty), "");
  EXPECT_EQ(GetText(bucket, empty, {0, 1}), "<OUT_OF_RANGE>");
  EXPECT_EQ(bucket.Head(empty)->byte_count, 0u);
}

TYPED_TEST_P(BucketConformance, BatchesAnswerInTheirOrder) {
  Bucket& bucket = *this->bucket_;
  const std::string key = this->Key("b");
  const std::string content = conformance::Pattern(5000, 1);
  const Result<std::string> version =
      conformance::PutText(bucket, key, content);
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  std::string target(4000, '?');
  std::vector<GetRequest> requests;
  for (uint64_t i = 0; i < 40; ++i) {
    requests.push_back({.key = key,
                        .range = {i * 100, 100},
                        .version = *version,
                        .target = {target.data() + 100 * i, 100}});
  }
  requests.push_back({.key = this->Key("none")});
  requests.push_back({.key = key, .range = {4990, kToEnd}});
  const std::vector<Result<GetResult>> results = bucket.Get(requests);
  ASSERT_EQ(results.size(), 42u);
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status().ToString();
    EXPECT_TRUE(results[i]->bytes.empty());
  }
  EXPECT_TRUE(target == content.substr(0, 4000));
  EXPECT_EQ(results[40].status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(results[41].ok());
  EXPECT_EQ(results[41]->bytes.view(), content.substr(4990));
  CancelToken cancel;
  cancel.Cancel();
  const auto cancelled = bucket.Get({requests.data(), 2}, &cancel);
  ASSERT_EQ(cancelled.size(), 2u);
  EXPECT_EQ(cancelled[0].status().code(), StatusCode::kCancelled);
}

TYPED_TEST_P(BucketConformance, AnotherVersionIsDataLoss) {
  Bucket& bucket = *this->bucket_;
  using conformance::GetText;
  const std::string key = this->Key("v");
  const auto first = conformance::PutText(bucket, key, "first");
  const auto second = conformance::PutText(bucket, key, "second");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(GetText(bucket, key, {}, *second), "second");
  EXPECT_EQ(GetText(bucket, key, {}, *first), "<DATA_LOSS>");
  EXPECT_EQ(GetText(bucket, key, {0, 2}, *first), "<DATA_LOSS>");
}

TYPED_TEST_P(BucketConformance, WhatIsAbsentIsNotFound) {
  Bucket& bucket = *this->bucket_;
  const std::string key = this->Key("absent");
  EXPECT_EQ(bucket.Head(key).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(conformance::GetText(bucket, key), "<NOT_FOUND>");
  EXPECT_EQ(bucket.Delete(key).code(), StatusCode::kOk);
  EXPECT_EQ(bucket.Copy(key, this->Key("x")).status().code(),
            StatusCode::kNotFound);
  EXPECT_THAT(std::string(bucket.Head(key).status().message()),
              testing::HasSubstr(bucket.UrlOf(key)));
}

TYPED_TEST_P(BucketConformance, ConditionsOfPutHold) {
  if (!this->factory_.keeps_conditions()) GTEST_SKIP();
  Bucket& bucket = *this->bucket_;
  using conformance::GetText;
  using conformance::PutText;
  const std::string key = this->Key("c");
  constexpr StatusCode kRefused = StatusCode::kFailedPrecondition;
  EXPECT_EQ(PutText(bucket, key, "x", Condition::Version("1")).status().code(),
            kRefused);
  const auto first = PutText(bucket, key, "first", Condition::Absent());
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(PutText(bucket, key, "x", Condition::Absent()).status().code(),
            kRefused);
  EXPECT_EQ(GetText(bucket, key), "first");
  const auto second = PutText(bucket, key, "2nd", Condition::Version(*first));
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(
      PutText(bucket, key, "x", Condition::Version(*first)).status().code(),
      kRefused);
  EXPECT_EQ(GetText(bucket, key), "2nd");
}

TYPED_TEST_P(BucketConformance, RacesHaveOneWinner) {
  if (!this->factory_.keeps_conditions()) GTEST_SKIP();
  Bucket& bucket = *this->bucket_;
  for (int round = 0; round < 3; ++round) {
    const std::string key = this->Key("race" + std::to_string(round));
    const auto race = [&](const Condition& condition) {
      std::atomic<int> winner{-1}, winners{0}, losers{0};
      std::vector<std::thread> threads;
      for (int i = 0; i < 16; ++i) {
        threads.emplace_back([&, i] {
          const auto version = conformance::PutText(
              bucket, key, "of " + std::to_string(i), condition);
          if (version.ok()) winner = i, ++winners;
          if (version.status().code() == StatusCode::kFailedPrecondition) {
            ++losers;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(winners, 1);
      EXPECT_EQ(losers, 15);
      EXPECT_EQ(conformance::GetText(bucket, key),
                "of " + std::to_string(winner));
    };
    race(Condition::Absent());
    const auto now = conformance::PutText(bucket, key, "now");
    ASSERT_TRUE(now.ok());
    race(Condition::Version(*now));
  }
}

TYPED_TEST_P(BucketConformance, ListsPageByPage) {
  Bucket& bucket = *this->bucket_;
  const int count = this->factory_.many_key_count();
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) {
    std::string number = std::to_string(i);
    number.insert(0, 6 - number.size(), '0');
    keys.push_back(this->Key("many/" + number));
  }
  std::atomic<int> next{0}, failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = next++; i < count; i = next++) {
        if (!conformance::PutText(bucket, keys[i], "x").ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(failures, 0);
  const auto all = conformance::ListAll(bucket, {.prefix = this->Key("many/")});
  EXPECT_TRUE(all.keys == keys);
  EXPECT_GE(all.page_count, 2);
  const auto tail = conformance::ListAll(
      bucket, {.prefix = this->Key("many/"), .start_after = keys[count - 3]});
  EXPECT_THAT(tail.keys,
              testing::ElementsAre(keys[count - 2], keys[count - 1]));
  const auto small = conformance::ListAll(
      bucket, {.prefix = this->Key("many/00000"), .entry_count_max = 3});
  EXPECT_EQ(small.keys.size(), 10u);
  EXPECT_EQ(small.page_count, 4);
  ASSERT_TRUE(bucket.DeleteAll(keys).ok());
  EXPECT_THAT(conformance::ListAll(bucket, {.prefix = this->Key("many/")}).keys,
              testing::IsEmpty());
  EXPECT_EQ(bucket.DeleteAll(keys).code(), StatusCode::kOk);
}

TYPED_TEST_P(BucketConformance, DelimitersFoldKeys) {
  Bucket& bucket = *this->bucket_;
  std::set<std::string> folders;
  for (const char* name :
       {"f/a", "f/b/c", "f/b/d", "f/b.x", "f/e/f/g", "f/z", "f/h/", "g"}) {
    ASSERT_TRUE(conformance::PutText(bucket, this->Key(name), "x").ok());
  }
  for (const int page : {1, 2, 1000}) {
    const auto listed = conformance::ListAll(
        bucket,
        {.prefix = this->Key("f/"), .delimiter = "/", .entry_count_max = page});
    EXPECT_THAT(listed.keys,
                testing::ElementsAre(this->Key("f/a"), this->Key("f/b.x"),
                                     this->Key("f/z")))
        << page;
    EXPECT_THAT(listed.prefixes,
                testing::ElementsAre(this->Key("f/b/"), this->Key("f/e/"),
                                     this->Key("f/h/")))
        << page;
  }
  const auto entries = bucket.List({.prefix = this->Key("f/b/")});
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->objects.size(), 2u);
  EXPECT_EQ(entries->objects[0].byte_count, 1u);
  EXPECT_EQ(entries->objects[0].version,
            bucket.Head(this->Key("f/b/c"))->version);
  EXPECT_GT(entries->objects[0].modified_ns, 0);
}

TYPED_TEST_P(BucketConformance, UploadsOfSeveralParts) {
  Bucket& bucket = *this->bucket_;
  const std::string key = this->Key("up/k");
  const uint64_t tail_bytes = 12345;
  std::string content;
  auto upload = bucket.StartUpload(key);
  ASSERT_TRUE(upload.ok()) << upload.status().ToString();
  EXPECT_EQ(conformance::GetText(bucket, key), "<NOT_FOUND>");
  constexpr uint64_t kPartCount = 3;
  std::vector<std::string> parts;
  for (uint64_t i = 0; i < kPartCount; ++i) {
    const bool is_last = i + 1 == kPartCount;
    parts.push_back(conformance::Pattern(
        is_last ? tail_bytes : bucket.part_bytes(i), static_cast<uint32_t>(i)));
    content += parts.back();
  }
  const auto send = [&](uint64_t i) {
    const std::string_view whole = parts[i];
    const std::string_view pieces[] = {whole.substr(0, 1000),
                                       whole.substr(1000)};
    return (*upload)->Part(i, pieces, i + 1 == kPartCount);
  };
  if (bucket.traits().parts_in_order) {
    for (uint64_t i = 0; i < kPartCount; ++i) ASSERT_TRUE(send(i).ok());
  } else {
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (uint64_t i = kPartCount; i-- > 0;) {
      threads.emplace_back([&, i] { failures += send(i).ok() ? 0 : 1; });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(failures, 0);
  }
  EXPECT_EQ(conformance::GetText(bucket, key), "<NOT_FOUND>");
  const auto version = (*upload)->Finish({});
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(bucket.Head(key)->version, *version);
  EXPECT_EQ(bucket.Head(key)->byte_count, content.size());
  EXPECT_TRUE(conformance::GetText(bucket, key, {}, *version) == content);
}

TYPED_TEST_P(BucketConformance, UploadsOfOnePart) {
  Bucket& bucket = *this->bucket_;
  for (const std::string_view text : {"", "short"}) {
    auto upload = bucket.StartUpload(this->Key("one"));
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Part(0, {&text, 1}, true).ok());
    const auto version = (*upload)->Finish({});
    ASSERT_TRUE(version.ok()) << version.status().ToString();
    EXPECT_EQ(conformance::GetText(bucket, this->Key("one")), text);
  }
}

TYPED_TEST_P(BucketConformance, UnfinishedUploadsLeaveNothing) {
  Bucket& bucket = *this->bucket_;
  const std::string key = this->Key("un/k");
  const std::string part = conformance::Pattern(bucket.part_bytes(0), 3);
  const std::string_view piece = part;
  for (const bool destroys : {true, false}) {
    auto upload = bucket.StartUpload(key);
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Part(0, {&piece, 1}, false).ok());
    if (!destroys) (*upload)->Abort();
    upload->reset();
    EXPECT_EQ(conformance::GetText(bucket, key), "<NOT_FOUND>");
    const auto left = bucket.ListUploads(this->Key("un/"));
    ASSERT_TRUE(left.ok()) << left.status().ToString();
    // If the request that starts an upload is sent twice, the first upload
    // remains, and no caller knows its id.
    EXPECT_TRUE(left->empty() || this->factory_.loses_answers());
  }
}

TYPED_TEST_P(BucketConformance, ConditionsOfUploadsHoldAtTheEnd) {
  Bucket& bucket = *this->bucket_;
  if (!bucket.traits().upload_conditions) GTEST_SKIP();
  const std::string key = this->Key("uc");
  const std::string_view text = "uploaded";
  auto upload = bucket.StartUpload(key);
  ASSERT_TRUE(upload.ok());
  ASSERT_TRUE((*upload)->Part(0, {&text, 1}, true).ok());
  ASSERT_TRUE(conformance::PutText(bucket, key, "rival").ok());
  EXPECT_EQ((*upload)->Finish(Condition::Absent()).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(conformance::GetText(bucket, key), "rival");
}

TYPED_TEST_P(BucketConformance, ServersCopy) {
  Bucket& bucket = *this->bucket_;
  const std::string source = this->Key("cp/a b+c"), target = this->Key("cp/t");
  ASSERT_TRUE(conformance::PutText(bucket, source, "copied").ok());
  const auto version = bucket.Copy(source, target);
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  EXPECT_EQ(conformance::GetText(bucket, target, {}, *version), "copied");
  EXPECT_EQ(bucket.Head(target)->version, *version);
  ASSERT_TRUE(bucket.Delete(source).ok());
  EXPECT_EQ(conformance::GetText(bucket, target), "copied");
}

TYPED_TEST_P(BucketConformance, ServersCopyTheWantedVersion) {
  Bucket& bucket = *this->bucket_;
  const std::string source = this->Key("cpv/s"), target = this->Key("cpv/t");
  const auto first = conformance::PutText(bucket, source, "first");
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_TRUE(bucket.Copy(source, target, {}, *first).ok());
  EXPECT_EQ(
      bucket.Copy(source, target, Condition::Absent(), *first).status().code(),
      StatusCode::kFailedPrecondition);
  ASSERT_TRUE(conformance::PutText(bucket, source, "second").ok());
  EXPECT_EQ(bucket.Copy(source, this->Key("cpv/u"), {}, *first).status().code(),
            StatusCode::kDataLoss);
}

TYPED_TEST_P(BucketConformance, UnusualKeysWork) {
  Bucket& bucket = *this->bucket_;
  std::vector<std::string> keys;
  for (const char* name :
       {"u/a b", "u/%2e", "u/x+y", "u/ü/ñ", "u/a&b=c?d#e", "u/q'\"<>", "u/~-_.",
        "u/a:b@c", "u/[x]{y}", "u/\\"}) {
    keys.push_back(this->Key(name));
  }
  std::sort(keys.begin(), keys.end());
  for (const std::string& key : keys) {
    const auto version = conformance::PutText(bucket, key, key);
    ASSERT_TRUE(version.ok()) << version.status().ToString();
    EXPECT_EQ(conformance::GetText(bucket, key), key);
  }
  EXPECT_EQ(conformance::ListAll(bucket, {.prefix = this->Key("u/")}).keys,
            keys);
  ASSERT_TRUE(bucket.DeleteAll(keys).ok());
  EXPECT_THAT(conformance::ListAll(bucket, {.prefix = this->Key("u/")}).keys,
              testing::IsEmpty());
}

REGISTER_TYPED_TEST_SUITE_P(BucketConformance, ObjectsReadBackWithTheirVersion,
                            RangesAreExact, BatchesAnswerInTheirOrder,
                            AnotherVersionIsDataLoss, WhatIsAbsentIsNotFound,
                            ConditionsOfPutHold, RacesHaveOneWinner,
                            ListsPageByPage, DelimitersFoldKeys,
                            UploadsOfSeveralParts, UploadsOfOnePart,
                            UnfinishedUploadsLeaveNothing,
                            ConditionsOfUploadsHoldAtTheEnd, ServersCopy,
                            ServersCopyTheWantedVersion, UnusualKeysWork);

}  // namespace holdfast
