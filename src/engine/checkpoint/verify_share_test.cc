#include "engine/checkpoint/verify_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace holdfast {
namespace {

using ::testing::ElementsAre;

TEST(WorkShare, EachUnitIsDoneOnceAndBytesAreEven) {
  std::mt19937 random(3);
  for (const int64_t ranks : {1, 2, 3, 7}) {
    std::vector<WorkShare> shares;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      shares.emplace_back(rank, ranks);
    }
    std::vector<uint64_t> bytes(ranks);
    for (int unit = 0; unit < 500; ++unit) {
      const uint64_t size = random() % 1000;
      int takers = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        if (!shares[rank].Takes(std::to_string(unit), size)) continue;
        ++takers;
        bytes[rank] += size;
      }
      EXPECT_EQ(takers, 1);
    }
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    EXPECT_LE(*most - *least, 1500u);
    for (const WorkShare& share : shares) {
      EXPECT_EQ(share.digest(), shares[0].digest());
    }
  }
}

TEST(WorkShare, DigestTellsUnitsApart) {
  const auto digest = [](std::string_view name, uint64_t bytes) {
    WorkShare share(0, 2);
    (void)share.Takes(name, bytes);
    return share.digest();
  };
  EXPECT_NE(digest("a", 1), digest("b", 1));
  EXPECT_NE(digest("a", 1), digest("a", 2));
}

ShareReport SomeReport() {
  ShareReport share;
  share.units_digest = 0xfedcba9876543210;
  share.report.damages = {
      {"w", "d/1a", 4096, DataLossError("crc32c differs")},
      {"", "_METADATA", std::nullopt, NotFoundError("gone \xff")}};
  share.report.not_supported = {
      {"h", "", std::nullopt, UnimplementedError("complex32")}};
  share.report.notes = {"a note", ""};
  share.report.leaf_count = 7;
  share.report.chunk_count = 300;
  share.report.checksummed_chunk_count = 299;
  share.report.stats.decoded_bytes = 1ull << 40;
  share.report.stats.stored_bytes = 12345;
  share.report.stats.total_seconds = 1.5;
  return share;
}

TEST(AddFinding, GivesBackWhatTellsOfTheMachine) {
  for (const Status& status :
       {DataLossError("x"), NotFoundError("x"), OutOfRangeError("x"),
        InvalidArgumentError("x"), FailedPreconditionError("x")}) {
    VerifyReport report;
    EXPECT_TRUE(AddFinding({"a", "f", 3, status}, report).ok());
    ASSERT_EQ(report.damages.size(), 1u);
    EXPECT_EQ(report.damages[0].status.code(), status.code());
    EXPECT_TRUE(report.not_supported.empty());
    EXPECT_FALSE(report.ok());
  }
  VerifyReport other;
  EXPECT_TRUE(AddFinding({"a", "f", 3, UnimplementedError("x")}, other).ok());
  EXPECT_EQ(other.not_supported.size(), 1u);
  EXPECT_TRUE(other.damages.empty());
  EXPECT_FALSE(other.ok());
  for (const Status& status :
       {PermissionDeniedError("x"), ResourceExhaustedError("x"),
        UnavailableError("x"), CancelledError("x"), DeadlineExceededError("x"),
        InternalError("x")}) {
    VerifyReport report;
    const Status back = AddFinding({"a", "f", 3, status}, report);
    EXPECT_EQ(back.code(), status.code());
    EXPECT_EQ(back.message(), "leaf a: x");
    EXPECT_EQ(AddFinding({"", "f", 3, status}, report).message(), "x");
    EXPECT_TRUE(report.ok());
  }
}

TEST(ShareReport, ComesBack) {
  const std::string bytes = EncodeShareReport(SomeReport());
  const auto share = DecodeShareReport(bytes);
  ASSERT_TRUE(share.ok()) << share.status().ToString();
  EXPECT_EQ(EncodeShareReport(*share), bytes);
  ASSERT_EQ(share->report.damages.size(), 2u);
  EXPECT_EQ(share->report.damages[0].offset, 4096u);
  EXPECT_EQ(share->report.damages[1].offset, std::nullopt);
  EXPECT_EQ(share->report.damages[1].status.ToString(), "NOT_FOUND: gone \xff");
  ASSERT_EQ(share->report.not_supported.size(), 1u);
  EXPECT_EQ(share->report.not_supported[0].status.ToString(),
            "UNIMPLEMENTED: complex32");
  EXPECT_THAT(share->report.notes, ElementsAre("a note", ""));
  EXPECT_EQ(share->report.stats.decoded_bytes, 1ull << 40);
}

TEST(ShareReport, RefusesEveryPrefix) {
  const std::string bytes = EncodeShareReport(SomeReport());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeShareReport(bytes.substr(0, size)).status().code(),
              StatusCode::kDataLoss);
  }
  EXPECT_FALSE(DecodeShareReport(bytes + "x").ok());
}

TEST(MergeShareReports, AddsUpAndKeepsWhatAllSawOnce) {
  ShareReport other = SomeReport();
  other.report.damages[0].offset = 0;
  other.report.stats.total_seconds = 2;
  other.report.notes = {"another"};
  const auto sum = MergeShareReports({SomeReport(), other}, "/c");
  ASSERT_TRUE(sum.ok()) << sum.status().ToString();
  ASSERT_EQ(sum->damages.size(), 3u);
  EXPECT_EQ(sum->damages[0].file, "_METADATA");
  EXPECT_EQ(sum->damages[1].offset, 0u);
  EXPECT_EQ(sum->damages[2].offset, 4096u);
  EXPECT_EQ(sum->not_supported.size(), 1u);
  EXPECT_THAT(sum->notes, ElementsAre("a note", "", "another"));
  EXPECT_EQ(sum->leaf_count, 7u);
  EXPECT_EQ(sum->chunk_count, 600u);
  EXPECT_EQ(sum->stats.stored_bytes, 24690u);
  EXPECT_EQ(sum->stats.total_seconds, 2);
}

TEST(MergeShareReports, NamesRanksThatSawOtherUnits) {
  ShareReport other = SomeReport();
  other.units_digest = 1;
  const auto sum =
      MergeShareReports({SomeReport(), other, SomeReport(), other}, "/c");
  EXPECT_EQ(sum.status().ToString(),
            "FAILED_PRECONDITION: verify: /c: rank 0 does not see the same "
            "files and chunks there as ranks 1, 3");
}

}  // namespace
}  // namespace holdfast
