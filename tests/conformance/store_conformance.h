// The contract of stores/storage/store.h as one typed test suite, for every
// Store.
//
//   struct MyFactory {
//     std::unique_ptr<Store> Make();  // an empty store
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, StoreConformance, MyFactory);
//
// `static bool keys_are_utf8()` of a factory returns true if the server accepts
// only keys that are UTF-8 without line ends, as Google's does.
//
// The factory lives as long as the store and may own what the store uses.
// Thread-safety: the store is used from up to 16 threads.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "stores/storage/store.h"

namespace holdfast {

namespace conformance {

// Runs fn(0) … fn(count - 1), each on its own thread.
inline void InThreads(int count, const std::function<void(int)>& fn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(fn, i);
  for (std::thread& thread : threads) thread.join();
}

// Returns "key:byte_count" for each object, in the order of List.
inline std::vector<std::string> Listing(Store& store, std::string_view prefix) {
  std::vector<std::string> listing;
  const Status status = store.List(prefix, [&](std::string_view key,
                                               const ObjectInfo& info) {
    listing.push_back(std::string(key) + ":" + std::to_string(info.byte_count));
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return listing;
}

// Returns the bytes of the object, or "<CODE>" if reading fails.
inline std::string Contents(Store& store, std::string_view key,
                            ByteRange range = {}) {
  const Result<Bytes> value = store.Read(key, range);
  if (value.ok()) return value->ToString();
  return "<" + std::string(StatusCodeName(value.status().code())) + ">";
}

inline std::vector<std::string> BadKeys() {
  using std::string_literals::operator""s;
  return {"",
          "/",
          "/a",
          "a/",
          "a//b",
          ".",
          "..",
          "a/.",
          "./a",
          "a/../b",
          "../a",
          "a/..",
          "a\0b"s,
          "\0"s,
          std::string(256, 'x'),
          "a/" + std::string(256, 'x') + "/b"};
}

// Returns every combination of options for writing an object.
inline std::vector<WriteOptions> AllWriteOptions() {
  std::vector<WriteOptions> all;
  for (int bits = 0; bits < 8; ++bits) {
    all.push_back({.sync = (bits & 1) != 0,
                   .atomic = (bits & 2) != 0,
                   .must_create = (bits & 4) != 0});
  }
  return all;
}

inline std::string OptionsName(const WriteOptions& options) {
  return std::string(options.sync ? "sync " : "") +
         (options.atomic ? "atomic " : "") +
         (options.must_create ? "must_create" : "");
}

// Returns an object that consists of one letter. Letter and length depend on
// `version`, so that a mix of two versions is recognizable.
inline std::string Uniform(int version) {
  return std::string(static_cast<size_t>(1000 + 37 * (version % 100)),
                     static_cast<char>('a' + version % 26));
}

inline bool IsUniform(std::string_view value) {
  for (int version = 0; version < 1300; ++version) {
    if (value == Uniform(version)) return true;
  }
  return false;
}

}  // namespace conformance

template <typename Factory>
class StoreConformance : public testing::Test {
 protected:
  static bool TakesKey(std::string_view key) {
    if constexpr (requires { Factory::keys_are_utf8(); }) {
      if (Factory::keys_are_utf8() &&
          key.find_first_of("\xff\n") != std::string_view::npos) {
        return false;
      }
    }
    return true;
  }

  void SetUp() override {
    owned_ = factory_.Make();
    store_ = owned_.get();
  }

  Factory factory_;
  std::unique_ptr<Store> owned_;
  Store* store_ = nullptr;
};

TYPED_TEST_SUITE_P(StoreConformance);

TYPED_TEST_P(StoreConformance, EveryCallRefusesBadKeys) {
  Store& store = *this->store_;
  char byte = 0;
  for (const std::string& key : conformance::BadKeys()) {
    SCOPED_TRACE(testing::PrintToString(key));
    constexpr StatusCode kWant = StatusCode::kInvalidArgument;
    EXPECT_EQ(store.Stat(key).status().code(), kWant);
    EXPECT_EQ(store.Read(key).status().code(), kWant);
    EXPECT_EQ(store.ReadInto(key, 0, {&byte, 1}).code(), kWant);
    EXPECT_EQ(store.Write(key, "x").code(), kWant);
    EXPECT_EQ(store.Create(key).status().code(), kWant);
    EXPECT_EQ(store.Delete(key).code(), kWant);
    EXPECT_EQ(store.Locate(key).status().code(), kWant);
  }
  EXPECT_THAT(conformance::Listing(store, ""), testing::IsEmpty());
}

TYPED_TEST_P(StoreConformance, UnusualKeysWork) {
  Store& store = *this->store_;
  std::vector<std::string> keys = {
      "a",
      "...",
      "..a",
      ".zarray",
      "d/.hidden",
      "a b",
      "x\ny",
      "\xff\xfe",
      "ü/ñ",
      std::string(255, 'x'),
      "%2e.",
      "q/w/e/r/t/y",
      std::string(250, 'y') + "/" + std::string(255, 'z')};
  std::erase_if(keys, [this](const auto& key) { return !this->TakesKey(key); });
  for (const std::string& key : keys) {
    ASSERT_EQ(store.Write(key, key).code(), StatusCode::kOk) << key;
  }
  std::vector<std::string> want;
  for (const std::string& key : keys) {
    EXPECT_EQ(conformance::Contents(store, key), key);
    want.push_back(key + ":" + std::to_string(key.size()));
  }
  EXPECT_THAT(conformance::Listing(store, ""),
              testing::UnorderedElementsAreArray(want));
}

TYPED_TEST_P(StoreConformance, WhatIsMissingIsNotFound) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("there/is", "x").ok());
  char byte = 0;
  for (const char* key : {"no", "there", "there/no", "no/no", "there/is/no"}) {
    SCOPED_TRACE(key);
    EXPECT_EQ(store.Stat(key).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(store.Read(key).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(store.ReadInto(key, 0, {&byte, 1}).code(), StatusCode::kNotFound);
    EXPECT_EQ(store.Delete(key).code(), StatusCode::kOk);
    EXPECT_THAT(std::string(store.Read(key).status().message()),
                testing::HasSubstr(store.Describe(key)));
  }
  EXPECT_EQ(conformance::Contents(store, "there/is"), "x");
}

TYPED_TEST_P(StoreConformance, WrittenObjectsReadBack) {
  Store& store = *this->store_;
  int ordinal = 0;
  for (const WriteOptions& options : conformance::AllWriteOptions()) {
    SCOPED_TRACE(conformance::OptionsName(options));
    const std::string key = "w/" + std::to_string(ordinal++);
    const std::vector<std::string_view> pieces = {"ab", "", "c", "defg", ""};
    ASSERT_EQ(store.Write(key, pieces, options).code(), StatusCode::kOk);
    EXPECT_EQ(conformance::Contents(store, key), "abcdefg");
    EXPECT_EQ(store.Stat(key)->byte_count, 7u);
  }
  ASSERT_TRUE(store.Write("empty", std::span<const std::string_view>()).ok());
  EXPECT_EQ(store.Stat("empty")->byte_count, 0u);
  EXPECT_EQ(conformance::Contents(store, "empty"), "");
}

TYPED_TEST_P(StoreConformance, ManyPiecesKeepTheirOrder) {
  Store& store = *this->store_;
  std::mt19937 random(7);
  std::string whole;
  for (int i = 0; i < 100000; ++i) whole += static_cast<char>(random());
  std::vector<std::string_view> pieces;  // more than one writev accepts
  for (size_t offset = 0; offset < whole.size();) {
    const size_t byte_count =
        std::min<size_t>(random() % 40, whole.size() - offset);
    pieces.push_back(std::string_view(whole).substr(offset, byte_count));
    offset += byte_count;
  }
  ASSERT_GT(pieces.size(), 3000u);
  ASSERT_TRUE(store.Write("many", pieces).ok());
  EXPECT_EQ(conformance::Contents(store, "many"), whole);
}

TYPED_TEST_P(StoreConformance, ReplacingKeepsNothingOfTheOldObject) {
  Store& store = *this->store_;
  for (const WriteOptions& options : conformance::AllWriteOptions()) {
    if (options.must_create) continue;
    SCOPED_TRACE(conformance::OptionsName(options));
    ASSERT_TRUE(store.Write("k", "a long old value", options).ok());
    EXPECT_EQ(conformance::Contents(store, "k"), "a long old value");
    ASSERT_TRUE(store.Write("k", "new", options).ok());
    EXPECT_EQ(conformance::Contents(store, "k"), "new");
    EXPECT_EQ(store.Stat("k")->byte_count, 3u);
  }
}

TYPED_TEST_P(StoreConformance, ReadBytesOutliveTheirObject) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("k", "old value").ok());
  const Result<Bytes> old = store.Read("k");
  ASSERT_TRUE(old.ok());
  ASSERT_TRUE(store.Write("k", "xxxxxxxxx", {.atomic = false}).ok());
  ASSERT_TRUE(store.Delete("k").ok());
  EXPECT_EQ(old->view(), "old value");
}

TYPED_TEST_P(StoreConformance, RangesWithinTheObject) {
  Store& store = *this->store_;
  const std::string value = "0123456789";
  ASSERT_TRUE(store.Write("k", value).ok());
  for (uint64_t offset = 0; offset <= value.size(); ++offset) {
    EXPECT_EQ(conformance::Contents(store, "k", {offset, kToEnd}),
              value.substr(offset));
    for (uint64_t count = 0; count <= value.size() - offset; ++count) {
      EXPECT_EQ(conformance::Contents(store, "k", {offset, count}),
                value.substr(offset, count));
      std::string target(count, '?');
      ASSERT_TRUE(store.ReadInto("k", offset, target).ok());
      EXPECT_EQ(target, value.substr(offset, count));
    }
  }
}

TYPED_TEST_P(StoreConformance, RangesPastTheEndAreOutOfRange) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("k", "0123456789").ok());
  const ByteRange kBad[] = {{11, kToEnd},     {11, 0},         {10, 1},
                            {0, 11},          {9, 2},          {kToEnd, 0},
                            {kToEnd, kToEnd}, {5, kToEnd - 1}, {kToEnd - 2, 5}};
  for (const ByteRange& range : kBad) {
    const Status status = store.Read("k", range).status();
    EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
    const std::string message(status.message());
    EXPECT_THAT(message, testing::HasSubstr(store.Describe("k")));
    EXPECT_THAT(message,
                testing::HasSubstr("offset " + std::to_string(range.offset)));
    EXPECT_THAT(message, testing::HasSubstr("the object has 10 bytes"));
  }
  std::string target(3, '?');
  EXPECT_EQ(store.ReadInto("k", 8, target).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store.ReadInto("k", kToEnd, target).code(),
            StatusCode::kOutOfRange);
}

TYPED_TEST_P(StoreConformance, ReadBatchFillsEachTarget) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("a", "0123456789").ok());
  ASSERT_TRUE(store.Write("b", "abcdef").ok());
  std::string first(3, '?'), second(6, '?'), third;
  const std::vector<RangeRead> requests = {
      {"a", 7, first}, {"b", 0, second}, {"a", 10, third}};
  ASSERT_EQ(store.ReadBatch(requests).code(), StatusCode::kOk);
  EXPECT_EQ(first + second, "789abcdef");
  ASSERT_EQ(store.ReadBatch({}).code(), StatusCode::kOk);
  const std::vector<RangeRead> bad = {{"a", 7, first}, {"no", 0, second}};
  EXPECT_EQ(store.ReadBatch(bad).code(), StatusCode::kNotFound);
  CancelToken cancel;
  cancel.Cancel();
  EXPECT_EQ(store.ReadBatch(requests, &cancel).code(), StatusCode::kCancelled);
}

TYPED_TEST_P(StoreConformance, LocateLeadsToTheBytes) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("d/k", "xyz").ok());
  const Result<ObjectLocation> location = store.Locate("d/k");
  ASSERT_TRUE(location.ok()) << location.status().ToString();
  if (location->inline_value) {
    EXPECT_EQ(location->inline_value->view(), "xyz");
    return;
  }
  ASSERT_NE(location->store, nullptr);
  EXPECT_EQ(conformance::Contents(*location->store, location->key,
                                  {location->offset, location->byte_count}),
            "xyz");
}

TYPED_TEST_P(StoreConformance, MustCreateRefusesToReplace) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("d/k", "first").ok());
  for (const WriteOptions& options : conformance::AllWriteOptions()) {
    if (!options.must_create) continue;
    SCOPED_TRACE(conformance::OptionsName(options));
    const Status status = store.Write("d/k", "second", options);
    EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr(store.Describe("d/k")));
  }
  EXPECT_EQ(conformance::Contents(store, "d/k"), "first");
  EXPECT_THAT(conformance::Listing(store, ""), testing::ElementsAre("d/k:5"));
}

TYPED_TEST_P(StoreConformance, MustCreateHasOneWinner) {
  Store& store = *this->store_;
  for (int round = 0; round < 20; ++round) {
    const WriteOptions options = {
        .sync = false, .atomic = round % 2 == 0, .must_create = true};
    const std::string key = "race/" + std::to_string(round) + "/k";
    std::atomic<int> winner{-1}, losers{0};
    conformance::InThreads(16, [&](int i) {
      const Status status = store.Write(key, std::to_string(i), options);
      if (status.ok()) winner = i;
      if (status.code() == StatusCode::kAlreadyExists) ++losers;
    });
    ASSERT_EQ(losers, 15);
    ASSERT_EQ(conformance::Contents(store, key), std::to_string(winner));
  }
}

TYPED_TEST_P(StoreConformance, AtomicReplaceIsNeverSeenHalfDone) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("k", conformance::Uniform(0)).ok());
  std::atomic<bool> done{false};
  std::atomic<int> read_count{0}, bad_count{0};
  std::thread reader([&] {
    while (!done) {
      const Result<Bytes> value = store.Read("k");
      if (!value.ok() || !conformance::IsUniform(value->view())) ++bad_count;
      ++read_count;
    }
  });
  // At least some reads must overlap writes.
  for (int i = 1; i < 400 || read_count < 50; ++i) {
    ASSERT_TRUE(
        store.Write("k", conformance::Uniform(i % 1300), {.sync = false}).ok());
    ASSERT_EQ(conformance::Contents(store, "k"),
              conformance::Uniform(i % 1300));
  }
  done = true;
  reader.join();
  EXPECT_EQ(bad_count, 0);
}

TYPED_TEST_P(StoreConformance, WriterTakesPiecesFromManyThreads) {
  Store& store = *this->store_;
  constexpr uint64_t kPartBytes = 5000;
  constexpr int kPartsEach = 20;
  for (const bool sync : {false, true}) {
    auto writer = store.Create("big");
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    std::atomic<int> failures{0};
    conformance::InThreads(8, [&](int thread) {
      for (int i = kPartsEach - 1; i >= 0; --i) {
        const int part = i * 8 + thread;
        const std::string half(kPartBytes / 2, static_cast<char>(part));
        const std::string_view pieces[] = {half, half};
        const uint64_t offset = kPartBytes * static_cast<uint64_t>(part);
        if (!(*writer)->WriteAt(offset, pieces).ok()) ++failures;
      }
    });
    ASSERT_EQ(failures, 0);
    ASSERT_EQ((*writer)->Finish(sync).code(), StatusCode::kOk);
    std::string want;
    for (int part = 0; part < 8 * kPartsEach; ++part) {
      want.append(kPartBytes, static_cast<char>(part));
    }
    EXPECT_TRUE(conformance::Contents(store, "big") == want);
  }
}

TYPED_TEST_P(StoreConformance, WriterGapsReadAsZero) {
  Store& store = *this->store_;
  auto writer = store.Create("d/gaps");
  ASSERT_TRUE(writer.ok());
  const std::string_view tail[] = {"tail"};
  const std::string_view head[] = {"", "he", "ad"};
  ASSERT_TRUE((*writer)->WriteAt(10000, tail).ok());
  ASSERT_TRUE((*writer)->WriteAt(1, head).ok());
  ASSERT_TRUE((*writer)->Finish(true).ok());
  std::string want(10004, '\0');
  want.replace(1, 4, "head").replace(10000, 4, "tail");
  EXPECT_TRUE(conformance::Contents(store, "d/gaps") == want);
  auto empty = store.Create("d/none");
  ASSERT_TRUE(empty.ok());
  ASSERT_TRUE((*empty)->Finish(false).ok());
  EXPECT_EQ(conformance::Contents(store, "d/none"), "");
}

TYPED_TEST_P(StoreConformance, UnfinishedWriterLeavesNothing) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("old", "old value").ok());
  const std::string_view pieces[] = {"new"};
  for (const char* key : {"old", "fresh", "deep/er/fresh"}) {
    auto writer = store.Create(key);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->WriteAt(0, pieces).ok());
    EXPECT_THAT(conformance::Listing(store, ""), testing::ElementsAre("old:9"));
  }
  EXPECT_EQ(conformance::Contents(store, "old"), "old value");
  EXPECT_EQ(conformance::Contents(store, "fresh"), "<NOT_FOUND>");
  EXPECT_THAT(conformance::Listing(store, ""), testing::ElementsAre("old:9"));
}

TYPED_TEST_P(StoreConformance, FinishedWriterReplacesAndIsDead) {
  Store& store = *this->store_;
  ASSERT_TRUE(store.Write("k", "old value").ok());
  const std::string_view pieces[] = {"new"};
  auto writer = store.Create("k");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->WriteAt(0, pieces).ok());
  EXPECT_EQ(conformance::Contents(store, "k"), "old value");
  ASSERT_TRUE((*writer)->Finish(true).ok());
  EXPECT_EQ(conformance::Contents(store, "k"), "new");
  EXPECT_EQ((*writer)->WriteAt(3, pieces).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ((*writer)->Finish(true).code(), StatusCode::kFailedPrecondition);
  writer->reset();
  EXPECT_EQ(conformance::Contents(store, "k"), "new");
}

TYPED_TEST_P(StoreConformance, FailedWriterIsDead) {
  Store& store = *this->store_;
  const std::string_view pieces[] = {"abc"};
  for (const uint64_t offset :
       {kToEnd, kToEnd - 2, uint64_t{1} << 63, (uint64_t{1} << 63) - 3}) {
    auto writer = store.Create("k");
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->WriteAt(0, pieces).ok());
    EXPECT_EQ((*writer)->WriteAt(offset, pieces).code(),
              StatusCode::kInvalidArgument)
        << offset;
    EXPECT_EQ((*writer)->WriteAt(3, pieces).code(),
              StatusCode::kFailedPrecondition);
    EXPECT_EQ((*writer)->Finish(true).code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(conformance::Contents(store, "k"), "<NOT_FOUND>");
}

TYPED_TEST_P(StoreConformance, ListsByPrefixInByteOrder) {
  Store& store = *this->store_;
  // '-' and '.' sort before '/', '0' after it.
  for (const char* key : {"a/x", "a.b", "a-b/x", "a0", "a/b/c", "a/b.c", "B",
                          "a/b/", "ab/\xff", "ab/z", "a/B"}) {
    if (std::string_view(key).ends_with('/') || !this->TakesKey(key)) continue;
    ASSERT_TRUE(store.Write(key, key).ok());
  }
  using conformance::Listing;
  using testing::ElementsAre;
  std::vector<std::string> want = {"B:1",   "a-b/x:5", "a.b:3",
                                   "a/B:3", "a/b.c:5", "a/b/c:5",
                                   "a/x:3", "a0:2",    "ab/z:4"};
  if (this->TakesKey("\xff")) want.push_back("ab/\xff:4");
  EXPECT_EQ(Listing(store, ""), want);
  EXPECT_THAT(Listing(store, "a/"),
              ElementsAre("a/B:3", "a/b.c:5", "a/b/c:5", "a/x:3"));
  EXPECT_THAT(Listing(store, "a/b"), ElementsAre("a/b.c:5", "a/b/c:5"));
  EXPECT_THAT(Listing(store, "a/b/c"), ElementsAre("a/b/c:5"));
  want.erase(want.begin(), want.begin() + 8);
  EXPECT_EQ(Listing(store, "ab"), want);
  for (const char* none : {"c", "a/b/c/", "a/b/cc", "/", "//", "../", "a//",
                           "./", "a/../", "a.b/", "no/no"}) {
    EXPECT_THAT(Listing(store, none), ElementsAre()) << none;
  }
}

TYPED_TEST_P(StoreConformance, ListMatchesAnObviousTwin) {
  Store& store = *this->store_;
  std::mt19937 random(11);
  std::map<std::string, size_t> twin;
  const std::string letters[] = {"a", "a.", "a-", "a0", "b", ".b"};
  for (int i = 0; i < 200; ++i) {
    std::string key;
    const int depth = 1 + static_cast<int>(random() % 4);
    for (int d = 0; d < depth; ++d) key += letters[random() % 6] + "/";
    key += "f" + letters[random() % 6];  // never a parent of another
    ASSERT_TRUE(store.Write(key, key, {.sync = false}).ok());
    twin[key] = key.size();
    if (i % 5 == 0) {
      ASSERT_TRUE(store.Delete(twin.begin()->first).ok());
      twin.erase(twin.begin());
    }
  }
  for (const char* prefix : {"", "a", "a/", "a./a", "b/", ".", "a0/f", "fa"}) {
    std::vector<std::string> want;
    for (const auto& [key, size] : twin) {
      if (!key.starts_with(prefix)) continue;
      want.push_back(key + ":" + std::to_string(size));
    }
    EXPECT_EQ(conformance::Listing(store, prefix), want) << prefix;
  }
}

TYPED_TEST_P(StoreConformance, ListStopsAtTheFirstFailure) {
  Store& store = *this->store_;
  for (const char* key : {"a", "b/c", "d"}) {
    ASSERT_TRUE(store.Write(key, "x").ok());
  }
  int call_count = 0;
  const Status status =
      store.List("", [&](std::string_view, const ObjectInfo&) {
        return ++call_count == 2 ? DataLossError("enough") : Status();
      });
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(call_count, 2);
}

TYPED_TEST_P(StoreConformance, ListedObjectsMayBeDeletedMeanwhile) {
  Store& store = *this->store_;
  for (const char* key : {"a", "b/c", "b/d", "e"}) {
    ASSERT_TRUE(store.Write(key, "x").ok());
  }
  const Status status =
      store.List("b/", [&](std::string_view key, const ObjectInfo&) {
        return store.Delete(key);
      });
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_THAT(conformance::Listing(store, ""),
              testing::ElementsAre("a:1", "e:1"));
}

TYPED_TEST_P(StoreConformance, DeleteRemovesOnlyItsKey) {
  Store& store = *this->store_;
  for (const char* key : {"d/a", "d/ab", "e"}) {
    ASSERT_TRUE(store.Write(key, "x").ok());
  }
  ASSERT_TRUE(conformance::Contents(store, "d/a") == "x");
  ASSERT_EQ(store.Delete("d/a").code(), StatusCode::kOk);
  EXPECT_EQ(store.Delete("d/a").code(), StatusCode::kOk);
  EXPECT_EQ(conformance::Contents(store, "d/a"), "<NOT_FOUND>");
  EXPECT_THAT(conformance::Listing(store, ""),
              testing::ElementsAre("d/ab:1", "e:1"));
  ASSERT_TRUE(store.Write("d/a", "again").ok());
  EXPECT_EQ(conformance::Contents(store, "d/a"), "again");
}

TYPED_TEST_P(StoreConformance, SyncNamesChangesNothingVisible) {
  Store& store = *this->store_;
  EXPECT_EQ(store.SyncNames().code(), StatusCode::kOk);
  ASSERT_TRUE(store.Write("d/e/k", "x", {.sync = true, .atomic = false}).ok());
  ASSERT_TRUE(store.Write("gone", "x").ok());
  ASSERT_TRUE(store.Delete("gone").ok());
  EXPECT_EQ(store.SyncNames().code(), StatusCode::kOk);
  EXPECT_EQ(store.SyncNames().code(), StatusCode::kOk);
  EXPECT_THAT(conformance::Listing(store, ""), testing::ElementsAre("d/e/k:1"));
}

TYPED_TEST_P(StoreConformance, ThreadsWorkSideBySide) {
  Store& store = *this->store_;
  std::atomic<int> failures{0};
  conformance::InThreads(8, [&](int thread) {
    for (int i = 0; i < 40; ++i) {
      const std::string key = "t/" + std::to_string(i % 10) + "/" +
                              std::to_string(thread) + "-" + std::to_string(i);
      const std::string value = conformance::Uniform(thread * 40 + i);
      const bool good = store.Write(key, value, {.sync = false}).ok() &&
                        conformance::Contents(store, key) == value &&
                        (i % 2 == 0 || store.Delete(key).ok()) &&
                        (i % 7 != 0 || store.SyncNames().ok());
      if (!good) ++failures;
    }
  });
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(conformance::Listing(store, "t/").size(), 8u * 20u);
}

REGISTER_TYPED_TEST_SUITE_P(
    StoreConformance, EveryCallRefusesBadKeys, UnusualKeysWork,
    WhatIsMissingIsNotFound, WrittenObjectsReadBack, ManyPiecesKeepTheirOrder,
    ReplacingKeepsNothingOfTheOldObject, ReadBytesOutliveTheirObject,
    RangesWithinTheObject, RangesPastTheEndAreOutOfRange,
    ReadBatchFillsEachTarget, LocateLeadsToTheBytes, MustCreateRefusesToReplace,
    MustCreateHasOneWinner, AtomicReplaceIsNeverSeenHalfDone,
    WriterTakesPiecesFromManyThreads, WriterGapsReadAsZero,
    UnfinishedWriterLeavesNothing, FinishedWriterReplacesAndIsDead,
    FailedWriterIsDead, ListsByPrefixInByteOrder, ListMatchesAnObviousTwin,
    ListStopsAtTheFirstFailure, ListedObjectsMayBeDeletedMeanwhile,
    DeleteRemovesOnlyItsKey, SyncNamesChangesNothingVisible,
    ThreadsWorkSideBySide);

}  // namespace holdfast
