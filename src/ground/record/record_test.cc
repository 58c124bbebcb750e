#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ground/record/call_record.h"
#include "ground/record/outputs.h"
#include "ground/record/recorder.h"
#include "ground/record/watchdog.h"
#include "holdfast/tools/metrics.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

double NumberOf(const std::string& name) { return GetMetrics()[name]; }

TEST(PhaseEvent, KeepsTheEndOfItsSubject) {
  PhaseEvent event;
  event.SetSubject(std::string(100, 'a') + "/d/6f31");
  EXPECT_EQ(event.SubjectText().size(), event.subject.size());
  EXPECT_THAT(std::string(event.SubjectText()), testing::EndsWith("a/d/6f31"));
  event.SetSubject("short");
  EXPECT_EQ(event.SubjectText(), "short");
}

std::vector<PhaseEvent> TakeEvents() {
  uint64_t lost_count = 0;
  return Recorder::Get().TakeEvents(lost_count);
}

TEST(Recorder, SumsAndKeepsPhases) {
  const double before_count = NumberOf("place_count");
  const double before_bytes = NumberOf("place_bytes");
  {
    const PhaseScope scope(Phase::kPlace, "leaf w", 7);
  }
  EXPECT_EQ(NumberOf("place_count"), before_count + 1);
  EXPECT_EQ(NumberOf("place_bytes"), before_bytes + 7);
  const PhaseEvent last = TakeEvents().back();
  EXPECT_EQ(last.SubjectText(), "leaf w");
  EXPECT_EQ(last.phase, Phase::kPlace);
  EXPECT_GE(last.took_ns, 0);
}

TEST(Recorder, IsBounded) {
  TakeEvents();
  for (size_t i = 0; i < kEventsKept + 10; ++i) {
    Recorder::Get().Add(PhaseEvent{.byte_count = i, .phase = Phase::kPlan});
  }
  uint64_t lost_count = 0;
  const auto events = Recorder::Get().TakeEvents(lost_count);
  EXPECT_EQ(lost_count, 10u);
  EXPECT_EQ(events.size(), kEventsKept);
  EXPECT_EQ(events.back().byte_count, kEventsKept + 9);
  EXPECT_EQ(events.front().byte_count, 10u);
}

TEST(Recorder, HistogramHasTheBucketOfEachEvent) {
  const auto before = Recorder::Get().phase_sums()[0];
  Recorder::Get().Add(PhaseEvent{.took_ns = 1'000'000});
  Recorder::Get().Add(PhaseEvent{.took_ns = 1'000'001});
  Recorder::Get().Add(PhaseEvent{.took_ns = int64_t{1} << 60});
  const auto after = Recorder::Get().phase_sums()[0];
  EXPECT_EQ(after.counts[0], before.counts[0] + 1);
  EXPECT_EQ(after.counts[1], before.counts[1] + 1);
  EXPECT_EQ(after.counts[9], before.counts[9] + 1);
  EXPECT_DOUBLE_EQ(PhaseSums::UpperSeconds(2), 0.016);
}

TEST(Recorder, NamesWhatIsLateInGrowingIntervals) {
  const PhaseScope quick(Phase::kRead, "quick", 1, 0);
  constexpr int64_t kSecondNs = 1'000'000'000;
  const int64_t now_ns = SteadyNowNs();
  const auto late_at = [&](int64_t seconds) {
    std::vector<std::string> names;
    for (const auto& open :
         Recorder::Get().TakeLate(now_ns + seconds * kSecondNs)) {
      names.emplace_back(open.event.SubjectText());
    }
    return names;
  };
  EXPECT_THAT(late_at(2), testing::IsEmpty());
  EXPECT_THAT(late_at(4), testing::ElementsAre("quick"));
  EXPECT_THAT(late_at(5), testing::IsEmpty());
  EXPECT_THAT(late_at(11), testing::IsEmpty());
  EXPECT_THAT(late_at(13), testing::ElementsAre("quick"));
}

TEST(CallRecord, CountsOutcomesAndInnerCallsOnce) {
  const double saves = NumberOf("saves"), loads = NumberOf("loads"),
               failures = NumberOf("failures");
  const Status failed = InCall(CallKind::kSave, "/ckpt/7", [] {
    EXPECT_NE(CallRecord::OfThread(), nullptr);
    EXPECT_TRUE(
        InCall(CallKind::kLoad, "/ckpt/6", [] { return Status(); }).ok());
    return DataLossError("torn");
  });
  EXPECT_EQ(failed.message(), "torn");
  EXPECT_EQ(CallRecord::OfThread(), nullptr);
  EXPECT_EQ(NumberOf("saves"), saves + 1);
  EXPECT_EQ(NumberOf("loads"), loads);
  EXPECT_EQ(NumberOf("failures"), failures + 1);
}

TEST(CallRecord, TellsItsPhaseAndMeeting) {
  CallRecord call(CallKind::kSave, "/ckpt/7");
  call.SetRank(2, 4);
  const OnCall on(&call);
  call.StartPhase("write", 100);
  call.AddDone(30);
  CallState state = call.State();
  EXPECT_EQ(state.rank, 2);
  EXPECT_EQ(state.rank_count, 4);
  EXPECT_EQ(state.phase, "write");
  EXPECT_EQ(state.done_bytes, 30u);
  EXPECT_EQ(state.total_bytes, 100u);
  {
    const MeetScope meet("commit", "/ckpt/7");
    EXPECT_EQ(call.State().phase, "meet: commit");
  }
  EXPECT_EQ(call.State().phase, "write");
  EXPECT_EQ(TakeEvents().back().rank, 2);
  call.End(Status());
}

TEST(CallRecord, PublishesAndWithdraws) {
  CallRecord call(CallKind::kSave, "/ckpt/7");
  std::promise<std::string> published;
  bool is_withdrawn = false;
  call.SetRank(0, 2);
  call.StartPhase("sync", 0);
  call.Publish(
      {.first_seconds = 0,
       .every_seconds = 1000,
       .publish =
           [&](const CallState& state) { published.set_value(state.phase); },
       .withdraw = [&] { is_withdrawn = true; },
       .other = [](int64_t rank) { return std::to_string(rank); }});
  EXPECT_EQ(published.get_future().get(), "sync");
  EXPECT_EQ(call.OtherRank(3), "3");
  call.End(Status());
  EXPECT_TRUE(is_withdrawn);
  EXPECT_EQ(call.OtherRank(3), "");
}

// ThreadSanitizer allows no threads in the child of such a fork.
#if !defined(__SANITIZE_THREAD__)
TEST(CallRecord, PublishesInAForkedChildToo) {
  CallRecord call(CallKind::kSave, "/ckpt/7");
  call.SetRank(0, 2);
  call.Publish({.first_seconds = 1000});
  const pid_t child = ::fork();
  if (child == 0) {
    CallRecord own(CallKind::kSave, "/ckpt/8");
    std::promise<void> published;
    own.SetRank(0, 2);
    own.Publish({.first_seconds = 0,
                 .every_seconds = 1000,
                 .publish = [&](const CallState&) { published.set_value(); }});
    published.get_future().wait();
    own.End(Status());
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  call.End(Status());
}
#endif

TEST(SayLate, IsCounted) {
  const double stalls = NumberOf("stalls");
  std::string said;
  SetSayLateForTest([&](const std::string& line) { said = line; });
  SayLate("rank 3 lags");
  SetSayLateForTest(nullptr);
  EXPECT_EQ(said, "holdfast: rank 3 lags\n");
  EXPECT_EQ(NumberOf("stalls"), stalls + 1);
}

TEST(Trace, IsWholeJsonAfterEachCall) {
  const ScratchDirectory scratch;
  SetTraceFile(scratch.path() + "/trace-%p.json");
  const std::string path =
      scratch.path() + "/trace-" + std::to_string(::getpid()) + ".json";
  for (size_t calls = 1; calls <= 2; ++calls) {
    (void)InCall(CallKind::kLoad, "/ckpt/7", [] {
      const PhaseScope scope(Phase::kDecode, "leaf \"w\\\n\xff", 9);
      return DataLossError("torn");
    });
    const auto trace = nlohmann::json::parse(ReadFile(path));
    const auto& events = trace.at("traceEvents");
    ASSERT_EQ(events.size(), calls + 1);
    const auto& event = events.back();
    EXPECT_EQ(event.at("name"), "decode");
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_EQ(event.at("pid"), ::getpid());
    EXPECT_EQ(event.at("args").at("bytes"), 9);
    EXPECT_THAT(event.at("args").at("of").get<std::string>(),
                HasSubstr("leaf \"w\\\n"));
    EXPECT_GT(event.at("ts").get<double>(), 1e15);
  }
  SetTraceFile("");
}

TEST(MetricsText, IsOpenMetrics) {
  Recorder::Get().Add(
      PhaseEvent{.took_ns = 5'000'000, .phase = Phase::kSnapshot});
  const std::string text = MetricsText();
  EXPECT_THAT(text, testing::EndsWith("# EOF\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE holdfast_saves counter\n"));
  EXPECT_THAT(text, HasSubstr("\nholdfast_saves_total "));
  EXPECT_THAT(text, HasSubstr("holdfast_phase_seconds_bucket{phase="
                              "\"snapshot\",le=\"0.004\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_phase_seconds_bucket{phase="
                              "\"snapshot\",le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_phase_seconds_sum{phase="
                              "\"snapshot\"} 0.005\n"));
}

}  // namespace
}  // namespace holdfast
