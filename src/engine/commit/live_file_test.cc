#include "engine/commit/live_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/commit/replaceable.h"
#include "ground/base/clock.h"
#include "ground/base/host_name.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

LiveRecord RecordOf(int64_t rank, const std::string& phase) {
  LiveRecord record;
  record.rank.rank = rank;
  record.rank.rank_count = 3;
  record.rank.host = HostName();
  record.rank.pid = ::getpid();
  record.rank.phase = phase;
  record.rank.done_bytes = 40;
  record.rank.total_bytes = 100;
  record.rank.bytes_per_second = 20;
  record.rank.phase_seconds = 2;
  record.rank.total_seconds = 2.5;
  record.written_ns = SystemNowNs();
  return record;
}

TEST(LiveFile, IsHiddenAndNamesItsRank) {
  EXPECT_EQ(LiveFileName(12), ".live-12.holdfast-tmp.0000000000000000");
  EXPECT_EQ(RankOfLiveFile(LiveFileName(12)), 12);
  for (const char* other : {".live-x.holdfast-tmp.0000000000000000", ".live-1",
                            "live-1", ".live-01.holdfast-tmp.0000000000000000",
                            ".live--1.holdfast-tmp.0000000000000000"}) {
    EXPECT_EQ(RankOfLiveFile(other), std::nullopt) << other;
  }
}

TEST(LiveFile, ReadsBackWhatWasWritten) {
  const ScratchDirectory scratch;
  const Place place(scratch.path());
  const LiveRecord written = RecordOf(3, "write");
  WriteLive(place, written);
  const auto read = ReadLive(place, 3);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(SerializeLive(*read), SerializeLive(written));
  EXPECT_EQ(ReadLive(place, 4), std::nullopt);
  RemoveLive(place, 3);
  EXPECT_EQ(ReadLive(place, 3), std::nullopt);
}

TEST(LiveFile, AnythingElseIsRefused) {
  const std::string good = SerializeLive(RecordOf(0, "write"));
  for (const std::string& text :
       {std::string(), std::string("[]"), good.substr(0, good.size() / 2),
        std::string(R"({"rank": "0"})"), std::string(R"({"rank": -1})")}) {
    EXPECT_EQ(ParseLive(text).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST(JudgeLiveRanks, NamesWhoIsWaitedForAndWhoIsSilent) {
  std::vector<LiveRecord> records = {RecordOf(0, "meet: write"),
                                     RecordOf(1, "write"),
                                     RecordOf(2, "meet: write")};
  const int64_t now_ns = records[0].written_ns + kSecondNs;
  records[1].written_ns = records[0].written_ns;
  records[2].written_ns = now_ns - 10 * kSecondNs;
  std::vector<LiveRank> ranks;
  JudgeLiveRanks(now_ns, records, ranks);
  EXPECT_EQ(ranks[0].lag, "");
  EXPECT_EQ(ranks[1].lag, "others have waited for it for 12 s");
  EXPECT_EQ(ranks[2].lag, "not heard from for 10 s");
  EXPECT_DOUBLE_EQ(ranks[1].phase_seconds, 3);
  EXPECT_DOUBLE_EQ(ranks[1].expected_seconds.value(), 2);
}

TEST(JudgeLiveRanks, NamesAProcessThatHasEnded) {
  LiveRecord record = RecordOf(0, "write");
  record.rank.pid = 1 << 22;  // more than Linux gives
  std::vector<LiveRank> ranks;
  JudgeLiveRanks(record.written_ns, {record}, ranks);
  EXPECT_EQ(ranks[0].lag, "its process has ended");
}

TEST(LiveSaves, FindsThoseOfARootAndOfAPath) {
  const ScratchDirectory scratch;
  const std::string root = scratch.path();
  EXPECT_TRUE(LiveSaves(root + "/absent").value().empty());
  EXPECT_TRUE(LiveSaves(root).value().empty());
  const std::string pending = root + "/7.orbax-checkpoint-tmp";
  std::filesystem::create_directory(pending);
  WriteLive(Place(pending), RecordOf(1, "write"));
  WriteLive(Place(pending), RecordOf(0, "sync"));
  std::ofstream(pending + "/" + LiveFileName(2)) << "{half";
  for (const std::string& path : {root, root + "/7"}) {
    const auto saves = LiveSaves(path);
    ASSERT_TRUE(saves.ok()) << saves.status().ToString();
    ASSERT_EQ(saves->size(), 1u);
    EXPECT_EQ((*saves)[0].path, root + "/7");
    EXPECT_EQ((*saves)[0].directory, pending);
    ASSERT_EQ((*saves)[0].ranks.size(), 2u);
    EXPECT_EQ((*saves)[0].ranks[0].phase, "sync");
    EXPECT_EQ((*saves)[0].ranks[1].rank, 1);
  }
}

TEST(LiveFile, IsNoReasonToRefuseAnOverwrite) {
  const ScratchDirectory scratch;
  WriteLive(Place(scratch.path()), RecordOf(0, "write"));
  EXPECT_TRUE(CheckMayReplace(scratch.path()).ok());
}

}  // namespace
}  // namespace holdfast
