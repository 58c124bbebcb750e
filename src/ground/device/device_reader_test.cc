#include "ground/device/device_reader.h"

#include <atomic>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "ground/tensor/copy.h"
#include "gtest/gtest.h"
#include "twins/device_twin.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string RandomBytes(size_t byte_count, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(byte_count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class DeviceReaderTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_THAT(twin_.violations(), IsEmpty());
    ring_.reset();
    EXPECT_EQ(twin_.pinned_bytes(), 0u);
    EXPECT_EQ(twin_.handle_count(), 0u);
  }

  // An array of 30 x 20 float32.
  DeviceArray ArrayOf(const std::string& bytes) {
    DeviceArray array;
    array.dtype = DType::kFloat32;
    array.shape = {30, 20};
    array.strides = {80, 4};
    array.address = twin_.Allocate(0, bytes);
    return array;
  }

  static Result<std::string> ReadAll(const ArrayReader& reader) {
    std::string bytes(2400, '\0');
    const Status status =
        reader.Read({0, 0}, {DType::kFloat32, bytes.data(), {30, 20}, {80, 4}});
    if (!status.ok()) return status;
    return bytes;
  }

  DeviceTwin twin_;
  std::shared_ptr<PinnedRing> ring_ = std::make_shared<PinnedRing>(
      twin_, 0,
      PinnedRingOptions{
          .slot_bytes = 500, .byte_count_max = 1500, .wait_seconds_max = 1});
  const std::string bytes_ = RandomBytes(2400, 7);
};

TEST_F(DeviceReaderTest, ReadsAnyBoxThroughASmallRing) {
  const auto reader = DeviceReader::Make(ring_, ArrayOf(bytes_));
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(*ReadAll(**reader), bytes_);

  std::string part(2 * 3 * 4, '\0');
  ASSERT_TRUE(
      (*reader)
          ->Read({5, 17}, {DType::kFloat32, part.data(), {2, 3}, {12, 4}})
          .ok());
  EXPECT_EQ(part,
            bytes_.substr(5 * 80 + 68, 12) + bytes_.substr(6 * 80 + 68, 12));
  EXPECT_EQ(twin_.pinned_bytes_peak(), 500u);  // one thread: one slot
}

TEST_F(DeviceReaderTest, WaitsForTheWorkBeforeItAndNothingElse) {
  const DeviceArray array = ArrayOf(std::string(2400, '\0'));
  const DeviceStream stream = *twin_.CreateStream(0);
  int polls_left = 20;
  twin_.Queue(0, stream, [&] {
    if (--polls_left > 0) return false;
    twin_.Write(array.address, bytes_);
    return true;
  });
  DeviceArray written = array;
  written.stream = stream;
  const auto reader = DeviceReader::Make(ring_, std::move(written));
  ASSERT_TRUE(reader.ok());
  // Work that is queued later never ends; the copies do not wait for it.
  twin_.Queue(0, stream, [] { return false; });
  EXPECT_EQ(*ReadAll(**reader), bytes_);
  twin_.DestroyStream(0, stream);
}

TEST_F(DeviceReaderTest, WorkThatNeverEndsIsADeadline) {
  const DeviceStream stream = *twin_.CreateStream(0);
  std::atomic<bool> may_end{false};
  twin_.Queue(0, stream, [&] { return may_end.load(); });
  DeviceArray array = ArrayOf(bytes_);
  array.stream = stream;
  {
    const auto reader = DeviceReader::Make(ring_, std::move(array));
    ASSERT_TRUE(reader.ok());
    const auto read = ReadAll(**reader);
    EXPECT_EQ(read.status().code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(read.status().message()),
                HasSubstr("the work that the program queued before it does "
                          "not end"));
    // Another array is read meanwhile.
    const std::string other = RandomBytes(2400, 8);
    const auto beside = DeviceReader::Make(ring_, ArrayOf(other));
    ASSERT_TRUE(beside.ok());
    const auto read_beside = ReadAll(**beside);
    ASSERT_TRUE(read_beside.ok()) << read_beside.status().ToString();
    EXPECT_EQ(*read_beside, other);
    may_end = true;
    EXPECT_EQ(*ReadAll(**reader), bytes_);
  }
  twin_.DestroyStream(0, stream);
}

// Slots whose copies do not end are given to nobody, and nobody waits for them
// forever, however many wait.
TEST_F(DeviceReaderTest, CopiesThatDoNotEndAreADeadlineForAll) {
  const auto owner = std::make_shared<int>(0);
  DeviceArray array = ArrayOf(bytes_);
  array.owner = owner;
  const auto reader = DeviceReader::Make(ring_, std::move(array));
  ASSERT_TRUE(reader.ok());
  twin_.Stall(true);
  std::atomic<int> late_count{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {  // of which three get a slot
    threads.emplace_back([&] {
      late_count +=
          ReadAll(**reader).status().code() == StatusCode::kDeadlineExceeded;
    });
  }
  threads.clear();
  EXPECT_EQ(late_count, 8);
  // The reader, and each slot with a copy that may still read the memory.
  EXPECT_EQ(owner.use_count(), 1 + 1 + 3);
  twin_.Stall(false);
  const auto read = ReadAll(**reader);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, bytes_);
}

TEST_F(DeviceReaderTest, ManyThreadsShareTheSlots) {
  const auto reader = DeviceReader::Make(ring_, ArrayOf(bytes_));
  ASSERT_TRUE(reader.ok());
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5; ++k) right += *ReadAll(**reader) == bytes_;
    });
  }
  threads.clear();
  EXPECT_EQ(right, 40);
  EXPECT_LE(twin_.pinned_bytes_peak(), 1500u);
}

TEST_F(DeviceReaderTest, EachFailingCallIsAnErrorOrHarmless) {
  int failed_count = 0;
  for (int call = 1; call < 60; ++call) {
    SCOPED_TRACE(call);
    const DeviceArray array = ArrayOf(bytes_);
    {
      auto ring = std::make_shared<PinnedRing>(
          twin_, 0,
          PinnedRingOptions{.slot_bytes = 500,
                            .byte_count_max = 1500,
                            .wait_seconds_max = 1});
      twin_.FailCall(call, UnavailableError("injected"));
      const auto reader = DeviceReader::Make(ring, array);
      const auto read = reader.ok() ? ReadAll(**reader)
                                    : Result<std::string>(reader.status());
      if (read.ok()) {
        EXPECT_EQ(*read, bytes_);
      } else {
        ++failed_count;
        EXPECT_EQ(read.status().message(), "injected");
      }
      // The next read is right, whatever failed before.
      twin_.FailCall(0, Status());
      if (reader.ok()) {
        const auto again = ReadAll(**reader);
        ASSERT_TRUE(again.ok());
        EXPECT_EQ(*again, bytes_);
      }
    }
    twin_.Free(array.address);
  }
  EXPECT_GT(failed_count, 20);
}

// Returns a twin that outlives the test: a stream that failed never says that
// its copies have ended, and they may still write to the twin's memory.
DeviceTwin& LastingTwin() {
  static auto& twins = *new std::vector<std::unique_ptr<DeviceTwin>>();
  return *twins.emplace_back(std::make_unique<DeviceTwin>());
}

TEST(DeviceReader, ACopyThatIsCutOffIsNeverTakenForWhole) {
  for (int copy = 1; copy <= 5; ++copy) {
    SCOPED_TRACE(copy);
    DeviceTwin& twin = LastingTwin();
    auto ring = std::make_shared<PinnedRing>(
        twin, 0, PinnedRingOptions{.slot_bytes = 500, .wait_seconds_max = 1});
    DeviceArray array;
    array.shape = {2400};
    array.strides = {1};
    array.address = twin.Allocate(0, RandomBytes(2400, 5));
    const auto reader = DeviceReader::Make(ring, array);
    ASSERT_TRUE(reader.ok());
    twin.CutCopy(copy);
    std::string read(2400, '\0');
    EXPECT_EQ(
        (*reader)->Read({0}, {DType::kUint8, read.data(), {2400}, {1}}).code(),
        StatusCode::kUnavailable);
    EXPECT_THAT(twin.violations(), IsEmpty());
  }
}

// The slot of a copy that failed is lost, with its twin, until all are: then no
// memory is allocated any more.
TEST(DeviceReader, ALostDeviceFailsEachReadAndTakesNoMoreMemory) {
  DeviceTwin& twin = LastingTwin();
  auto ring = std::make_shared<PinnedRing>(
      twin, 0,
      PinnedRingOptions{
          .slot_bytes = 500, .byte_count_max = 1500, .wait_seconds_max = 1});
  DeviceArray array;
  array.shape = {2400};
  array.strides = {1};
  array.address = twin.Allocate(0, RandomBytes(2400, 5));
  const auto reader = DeviceReader::Make(ring, array);
  ASSERT_TRUE(reader.ok());
  std::string read(2400, '\0');
  const ArrayView target{DType::kUint8, read.data(), {2400}, {1}};
  ASSERT_TRUE((*reader)->Read({0}, target).ok());
  twin.Lose();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ((*reader)->Read({0}, target).code(), StatusCode::kUnavailable);
  }
  EXPECT_LE(twin.pinned_bytes_peak(), 1500u);
}

TEST(DeviceReader, ARefusalMakesTheRingDoWithTheSlotsThatItHas) {
  DeviceTwin twin({.pinned_bytes_max = 1200});
  const std::string bytes = RandomBytes(2400, 3);
  auto ring = std::make_shared<PinnedRing>(
      twin, 0, PinnedRingOptions{.slot_bytes = 500, .wait_seconds_max = 20});
  DeviceArray array;
  array.shape = {2400};
  array.strides = {1};
  array.address = twin.Allocate(0, bytes);
  const auto reader = DeviceReader::Make(ring, array);
  ASSERT_TRUE(reader.ok());
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      std::string read(2400, '\0');
      right += (*reader)
                   ->Read({0}, {DType::kUint8, read.data(), {2400}, {1}})
                   .ok() &&
               read == bytes;
    });
  }
  threads.clear();
  EXPECT_EQ(right, 6);
  EXPECT_LE(twin.pinned_bytes_peak(), 1000u);
  EXPECT_THAT(twin.violations(), IsEmpty());
}

TEST(DeviceReader, ManyThreadsShareABudgetOfTwoDevices) {
  DeviceTwin twin({.device_count = 2});
  const std::string bytes = RandomBytes(2400, 3);
  const auto budget = std::make_shared<PinnedBudget>(1500);
  std::vector<std::shared_ptr<const DeviceReader>> readers;
  for (const int device : {0, 1}) {
    DeviceArray array;
    array.shape = {2400};
    array.strides = {1};
    array.address = twin.Allocate(device, bytes);
    readers.push_back(*DeviceReader::Make(
        std::make_shared<PinnedRing>(
            twin, device,
            PinnedRingOptions{.slot_bytes = 500, .wait_seconds_max = 20},
            budget),
        array));
  }
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 5; ++k) {
        std::string read(2400, '\0');
        const ArrayView target{DType::kUint8, read.data(), {2400}, {1}};
        right += readers[(i + k) % 2]->Read({0}, target).ok() && read == bytes;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right, 40);
  EXPECT_LE(twin.pinned_bytes_peak(), 2000u);  // one more for a ring's first
  EXPECT_THAT(twin.violations(), IsEmpty());
}

TEST(DeviceReader, WithoutPinnedMemoryOrdinaryMemoryServes) {
  DeviceTwin twin({.pinned_bytes_max = 100, .allows_pageable = true});
  const std::string bytes = RandomBytes(2400, 3);
  auto ring = std::make_shared<PinnedRing>(
      twin, 0, PinnedRingOptions{.slot_bytes = 500, .wait_seconds_max = 1});
  DeviceArray array;
  array.shape = {2400};
  array.strides = {1};
  array.address = twin.Allocate(0, bytes);
  const auto reader = DeviceReader::Make(ring, array);
  ASSERT_TRUE(reader.ok());
  std::string read(2400, '\0');
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        (*reader)->Read({0}, {DType::kUint8, read.data(), {2400}, {1}}).ok());
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "holdfast: twin: no pinned memory; copies between device 0 and the "
            "host use ordinary memory, and are slower\n");
  EXPECT_EQ(read, bytes);
}

TEST_F(DeviceReaderTest, RefusesWhatIsNotInOneAllocationOfItsDevice) {
  const auto message = [&](const DeviceArray& array) {
    return std::string(DeviceReader::Make(ring_, array).status().message());
  };
  DeviceArray beyond = ArrayOf(bytes_);
  beyond.shape = {31, 20};
  EXPECT_THAT(message(beyond), HasSubstr("ends outside of its allocation of "
                                         "2400 bytes on device 0"));
  DeviceArray before = ArrayOf(bytes_);
  before.strides = {-80, 4};
  EXPECT_THAT(message(before), HasSubstr("ends outside"));
  DeviceArray endless = ArrayOf(bytes_);
  endless.strides = {int64_t{1} << 62, 4};
  EXPECT_THAT(message(endless), HasSubstr("ends outside"));
  DeviceArray host = ArrayOf(bytes_);
  host.address = 4096;
  EXPECT_THAT(message(host), HasSubstr("is in host memory"));
  DeviceArray flat = ArrayOf(bytes_);
  flat.strides = {4};
  EXPECT_THAT(message(flat), HasSubstr("got 1, want one for each of 2"));
  DeviceArray deep = ArrayOf(bytes_);
  deep.shape = Shape(33, 1);
  deep.strides = Shape(33, 4);
  EXPECT_THAT(message(deep), HasSubstr("rank 33 (want at most 32)"));
  DeviceArray least = ArrayOf(bytes_);
  least.shape = {1, 20};
  least.strides = {std::numeric_limits<int64_t>::min(), 4};
  EXPECT_THAT(message(least), HasSubstr("a stride of -2^63"));
  DeviceArray negative = ArrayOf(bytes_);
  negative.shape = {-1, 20};
  EXPECT_THAT(message(negative), HasSubstr("an extent of -1"));
}

TEST(DeviceReader, ArraysOfOtherDevicesAreRefused) {
  DeviceTwin twin({.device_count = 2});
  auto ring = std::make_shared<PinnedRing>(twin, 0, PinnedRingOptions());
  DeviceArray array;
  array.shape = {4};
  array.strides = {1};
  array.address = twin.Allocate(1, "abcd");
  EXPECT_THAT(std::string(DeviceReader::Make(ring, array).status().message()),
              HasSubstr("on device 1 (want 0)"));
}

}  // namespace
}  // namespace holdfast
