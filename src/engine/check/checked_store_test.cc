#include "engine/check/checked_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "engine/check/value_sums.h"
#include "ground/base/crc32c.h"
#include "stores/storage/memory_store.h"
#include "twins/counting_store.h"

namespace holdfast {
namespace {

constexpr uint64_t kBlock = kDigestBlockBytes;

std::string RandomText(size_t byte_count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(byte_count, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

// Behaves like a server's store: counts batches separately.
class RemoteTwin final : public CountingStore {
 public:
  explicit RemoteTwin(Store* inner, int requests)
      : CountingStore(inner), requests_(requests) {}
  int requests_in_flight() const override { return requests_; }

 private:
  const int requests_;
};

// A data file with a gap, a value of several blocks, a small value, a large
// value without blocks, one with a tail, a node, and a file; in a store that is
// local (1) or remote (8).
class CheckedStoreTest : public testing::TestWithParam<int> {
 protected:
  CheckedStoreTest() : counted_(&memory_, GetParam()) {
    Append(100, nullptr);  // a gap
    blocks_ = Append(5 * kBlock + 17, [&](ValueDigest&) {});
    small_ = Append(1000, [](ValueDigest&) {});
    bare_ =
        Append(9 * kBlock, [](ValueDigest& row) { row.block_crcs.clear(); });
    tail_ = Append(3 * kBlock, [](ValueDigest& row) {
      row.block_crcs.clear();
      row.tail = 0;
    });
    node_ = Append(500, [](ValueDigest& row) { row.kind = RowKind::kNode; });
    for (ValueDigest& row : digests_.values) {
      if (row.tail) {
        uint32_t tail = 0;
        std::memcpy(&tail, data_.data() + row.offset + row.byte_count - 4, 4);
        row.tail = tail;
      }
      if (row.is_node()) {
        row.crc32c = Crc32c(
            std::string_view(data_).substr(row.offset, row.byte_count - 4));
      }
    }
    digests_.files.push_back({"file", 4, Crc32c("text")});
    digests_.values.push_back({"alone", 0, 5, Crc32c("value")});
    Write("file", "text");
    Write("alone", "value");
    Write("d/x", data_);
    Write("_HOLDFAST_DIGESTS", SerializeDigestFile(digests_));
    checked_ = Open();
    counted_.ResetCounters();
  }

  std::unique_ptr<CheckedStore> Open() {
    auto index = DigestIndex::Read(memory_);
    EXPECT_TRUE(index.ok() && index->has_value());
    return std::make_unique<CheckedStore>(
        std::shared_ptr<Store>(&counted_, [](Store*) {}),
        std::make_shared<const DigestIndex>(**std::move(index)));
  }

  void Write(const std::string& key, const std::string& text) {
    ASSERT_TRUE(memory_.Write(key, text, {}).ok());
  }

  uint64_t Append(size_t byte_count,
                  const std::function<void(ValueDigest&)>& change) {
    const uint64_t offset = data_.size();
    data_ += RandomText(byte_count, static_cast<uint32_t>(offset + 1));
    if (change == nullptr) return offset;
    ValueDigest row =
        SumValue("d/x", offset, std::string_view(data_).substr(offset),
                 ValueKnownBy::kBlocks);
    change(row);
    digests_.values.push_back(row);
    return offset;
  }

  void Flip(uint64_t offset) {
    std::string damaged = data_;
    damaged[offset] ^= 4;
    Write("d/x", damaged);
  }

  // Reads the range in every way, and returns the code that all of them return.
  StatusCode ReadAll(uint64_t offset, uint64_t byte_count) {
    const std::string want = data_.substr(offset, byte_count);
    const auto bytes = checked_->Read("d/x", {offset, byte_count});
    if (bytes.ok()) {
      EXPECT_EQ(bytes->view(), want);
    }
    std::string into(byte_count, '\0');
    const Status read = checked_->ReadInto("d/x", offset, into);
    if (read.ok()) {
      EXPECT_EQ(into, want);
    }
    EXPECT_EQ(read.code(), bytes.status().code());
    return read.code();
  }

  MemoryStore memory_;
  RemoteTwin counted_;
  std::string data_;
  DigestFile digests_;
  uint64_t blocks_, small_, bare_, tail_, node_;
  std::unique_ptr<CheckedStore> checked_;
};

INSTANTIATE_TEST_SUITE_P(NearAndFar, CheckedStoreTest, testing::Values(1, 8));

TEST_P(CheckedStoreTest, GoodBytesOfAnyRangeAreGiven) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const uint64_t offset = random() % data_.size();
    const uint64_t room = data_.size() - offset;
    const uint64_t byte_count =
        random() % (i % 2 == 0 ? std::min<uint64_t>(room, 300) : room) + 1;
    EXPECT_EQ(ReadAll(offset, byte_count), StatusCode::kOk)
        << offset << " " << byte_count;
  }
  EXPECT_EQ(checked_->Read("file")->view(), "text");
  EXPECT_EQ(checked_->Read("alone")->view(), "value");
}

TEST_P(CheckedStoreTest, AFlipIsFoundByWhoeverReadsItsBlock) {
  Flip(blocks_ + 2 * kBlock + 5);
  // Reads of other bytes in the same block fail; reads of the neighboring
  // blocks succeed.
  EXPECT_EQ(ReadAll(blocks_ + 3 * kBlock - 1, 1), StatusCode::kDataLoss);
  EXPECT_EQ(ReadAll(blocks_ + 2 * kBlock, 1), StatusCode::kDataLoss);
  EXPECT_EQ(ReadAll(blocks_ + 2 * kBlock - 1, 1), StatusCode::kOk);
  EXPECT_EQ(ReadAll(blocks_ + 3 * kBlock, 1), StatusCode::kOk);
  EXPECT_EQ(ReadAll(blocks_, 5 * kBlock + 17), StatusCode::kDataLoss);
  EXPECT_EQ(ReadAll(small_, 1000), StatusCode::kOk);
  Flip(small_ + 999);
  EXPECT_EQ(ReadAll(small_, 1), StatusCode::kDataLoss);
  EXPECT_EQ(ReadAll(0, data_.size()), StatusCode::kDataLoss);
}

TEST_P(CheckedStoreTest, AMessageHasFileOffsetAndBothChecksums) {
  Flip(blocks_ + kBlock);
  char byte = 0;
  const Status read =
      checked_->ReadInto("d/x", blocks_ + kBlock + 9, {&byte, 1});
  EXPECT_EQ(read.code(), StatusCode::kDataLoss);
  const std::string message(read.message());
  EXPECT_NE(message.find("d/x at " + std::to_string(blocks_ + kBlock) +
                         ": bytes differ from when they were saved (got "),
            std::string::npos)
      << message;
}

TEST_P(CheckedStoreTest, AValueWithoutBlocksIsReadOnceAsAWhole) {
  Flip(bare_ + 8 * kBlock);
  EXPECT_EQ(ReadAll(bare_, 1), StatusCode::kDataLoss);
  Write("d/x", data_);
  counted_.ResetCounters();
  char byte = 0;
  ASSERT_TRUE(checked_->ReadInto("d/x", bare_ + 5, {&byte, 1}).ok());
  EXPECT_EQ(counted_.counters().read_bytes, 9 * kBlock + 1);
  ASSERT_TRUE(checked_->ReadInto("d/x", bare_ + 7, {&byte, 1}).ok());
  EXPECT_EQ(counted_.counters().read_bytes, 9 * kBlock + 2);
}

TEST_P(CheckedStoreTest, ATailTellsTheValueAndItsBytesAreForTheDecoder) {
  Flip(tail_ + 5);
  EXPECT_EQ(checked_->Read("d/x", {tail_, 3 * kBlock}).status().code(),
            StatusCode::kOk);
  for (int i = 1; i <= 4; ++i) {
    Flip(tail_ + 3 * kBlock - i);
    EXPECT_EQ(checked_->Read("d/x", {tail_, 3 * kBlock}).status().code(),
              StatusCode::kDataLoss);
  }
  // Reads have the requested size: no extra bytes are read for an unlisted
  // file.
  Write("d/x", data_);
  counted_.ResetCounters();
  ASSERT_TRUE(checked_->Read("d/x", {tail_ + 3, 50}).ok());
  EXPECT_EQ(counted_.counters().read_bytes, 50u);
}

TEST_P(CheckedStoreTest, ANodeIsKnownByAllButTheCrcAtItsEnd) {
  // A stale node differs like this; the CRC at its end may be valid for itself.
  Flip(node_ + 3);
  EXPECT_EQ(ReadAll(node_, 500), StatusCode::kDataLoss);
  Flip(node_ + 499);
  EXPECT_EQ(checked_->Read("d/x", {node_, 500}).status().code(),
            StatusCode::kOk);
}

TEST_P(CheckedStoreTest, FilesAreChecked) {
  Write("file", "texT");
  EXPECT_EQ(checked_->Read("file").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(checked_->Read("file", {0, 1}).status().code(),
            StatusCode::kDataLoss);
  Write("file", "text!");
  EXPECT_EQ(checked_->Read("file").status().code(), StatusCode::kDataLoss);
  Write("alone", "value!");
  EXPECT_EQ(checked_->Read("alone").status().code(), StatusCode::kDataLoss);
}

TEST_P(CheckedStoreTest, AListedFileThatIsGoneIsDamage) {
  for (const char* key : {"file", "alone", "d/x"}) {
    ASSERT_TRUE(memory_.Delete(key).ok());
    char byte = 0;
    EXPECT_EQ(checked_->Read(key).status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(checked_->Stat(key).status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(checked_->ReadInto(key, 0, {&byte, 1}).code(),
              StatusCode::kDataLoss);
  }
  EXPECT_EQ(checked_->Read("other").status().code(), StatusCode::kNotFound);
}

TEST_P(CheckedStoreTest, AListedFileThatWasCutIsDamage) {
  for (const size_t byte_count : {size_t{0}, size_t{5}, data_.size() - 1}) {
    Write("d/x", data_.substr(0, byte_count));
    char bytes[8];
    EXPECT_EQ(checked_->Read("d/x").status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(checked_->ReadInto("d/x", data_.size() - 8, bytes).code(),
              StatusCode::kDataLoss);
    EXPECT_EQ(checked_->Read("d/x", {0, data_.size()}).status().code(),
              StatusCode::kDataLoss);
  }
}

// The requests are parts of matrix rows, several of which share a block.
TEST_P(CheckedStoreTest, ABatchReadsEachBlockOnce) {
  std::string target(64 * 16, '\0');
  std::vector<RangeRead> requests;
  for (size_t i = 0; i < 64; ++i) {
    requests.push_back(
        {"d/x", blocks_ + i * 4096, std::span(target).subspan(i * 16, 16)});
  }
  ASSERT_TRUE(checked_->ReadBatch(requests).ok());
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(target.substr(i * 16, 16), data_.substr(blocks_ + i * 4096, 16));
  }
  EXPECT_EQ(counted_.counters().read_bytes, 4 * kBlock);
}

TEST_P(CheckedStoreTest, ALargeRaggedReadTakesOnlyItsEndsThroughScratch) {
  // The request's size decides: remote stores split requests from 8 MiB on.
  const uint64_t value_bytes = 12 << 20;
  data_ = RandomText(value_bytes, 9);
  digests_ = {};
  digests_.values.push_back(SumValue("d/x", 0, data_, ValueKnownBy::kBlocks));
  Write("d/x", data_);
  Write("_HOLDFAST_DIGESTS", SerializeDigestFile(digests_));
  checked_ = Open();
  counted_.ResetCounters();
  EXPECT_EQ(ReadAll(3, value_bytes - 10), StatusCode::kOk);
  EXPECT_EQ(counted_.counters().read_bytes, 2 * value_bytes);
}

TEST_P(CheckedStoreTest, ReadsThatReachPastTheEndAreRefused) {
  char bytes[8];
  EXPECT_EQ(checked_->ReadInto("d/x", data_.size() - 4, bytes).code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(checked_->ReadInto("d/x", UINT64_MAX - 2, bytes).code(),
            StatusCode::kOutOfRange);
  EXPECT_TRUE(checked_->ReadInto("d/x", 0, {}).ok());
  EXPECT_EQ(checked_->ReadInto("other", 0, {}).code(), StatusCode::kNotFound);
}

TEST_P(CheckedStoreTest, ItDoesNotWrite) {
  EXPECT_EQ(checked_->Write("file", "text", {}).code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(checked_->Delete("file").code(), StatusCode::kUnimplemented);
  EXPECT_EQ(checked_->Create("file").status().code(),
            StatusCode::kUnimplemented);
}

// Compares with a slow model: whichever bit is flipped, a read either returns
// the right bytes or is refused.
TEST_P(CheckedStoreTest, NoFlipIsEverGiven) {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const uint64_t flipped = blocks_ + random() % (bare_ - blocks_);
    Flip(flipped);
    const uint64_t offset = blocks_ + random() % (bare_ - blocks_);
    const uint64_t byte_count =
        random() % std::min<uint64_t>(bare_ - offset, 3 * kBlock) + 1;
    const StatusCode code = ReadAll(offset, byte_count);
    const bool has_it = flipped >= offset && flipped < offset + byte_count;
    if (has_it) {
      EXPECT_EQ(code, StatusCode::kDataLoss) << flipped;
    }
  }
}

}  // namespace
}  // namespace holdfast
