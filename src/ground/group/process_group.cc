#include "holdfast/process_group.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/wait_time.h"
#include "ground/group/frame.h"
#include "ground/group/rank_list.h"
#include "ground/record/call_record.h"
#include "ground/record/watchdog.h"

namespace holdfast {
namespace {

// If a rank keeps others waiting for this long, it is reported as late. It is
// reported again each time that the wait has grown by the factor kLateGrowth.
constexpr double kLateSeconds = 3;
constexpr double kLateGrowth = 4;
// The line about late ranks reports the known state of at most this many ranks.
constexpr size_t kKnownRanksMax = 4;

constexpr size_t kNameBytesMax = 140;  // leaves room for the rest of a topic

std::string Where(std::string_view phase, std::string_view file) {
  std::string text(phase);
  if (!file.empty()) text += ": " + std::string(file);
  return text;
}

std::string SecondsText(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

// Returns the caller's name in a form that topics can contain.
std::string TopicName(std::string_view name) {
  const bool is_plain = std::all_of(
      name.begin(), name.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (is_plain && name.size() <= kNameBytesMax) return std::string(name);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  std::string bytes;
  PutU64Little(bytes, hash);
  return "#" + ToHex(bytes);
}

using Values = std::vector<std::string>;
// Computes rank 0's answer from all ranks' values.
using AnswerFunction = Values (*)(Values values, int64_t root);

Values AllOf(Values values, int64_t) { return values; }
Values OneOf(Values values, int64_t root) { return {std::move(values[root])}; }
Values NoneOf(Values, int64_t) { return {}; }

// The value that this rank brings to a meeting, and the values that it wants.
struct Visit {
  Meeting meeting;
  std::string value;
  Status failure;
  AnswerFunction answer = NoneOf;  // the same on all ranks
  int64_t root = 0;

  std::string where() const { return Where(meeting.phase, meeting.file); }
  bool IsOf(std::string_view phase, std::string_view file) const {
    return phase == meeting.phase && file == meeting.file;
  }
};

// The result of a meeting on this rank.
struct Outcome {
  Result<Values> values;
  bool is_told = false;  // the other ranks know the failure, or will
  bool is_past = false;  // this rank left out the call, which is over
  std::vector<int64_t> failed_ranks;
};

// One meeting as rank 0 sees it; the vectors are indexed by member.
struct Collected {
  std::vector<std::optional<ArrivalFrame>> arrivals;
  std::vector<bool> was_told;  // got a WaitingFrame

  std::vector<int64_t> Missing() const {
    std::vector<int64_t> missing;
    for (size_t i = 0; i < arrivals.size(); ++i) {
      if (!arrivals[i]) missing.push_back(static_cast<int64_t>(i));
    }
    return missing;
  }
  bool HasStrangers() const {
    return std::any_of(arrivals.begin(), arrivals.end(), [&](const auto& it) {
      return it && it->failure.ok() && arrivals[0]->failure.ok() &&
             it->phase != arrivals[0]->phase;
    });
  }
};

class StarGroup : public ProcessGroup {
 public:
  // `members`: the transport's ranks, ascending.
  StarGroup(std::shared_ptr<ProcessTransport> transport,
            std::vector<int64_t> members, ProcessGroupOptions options)
      : transport_(std::move(transport)),
        members_(std::move(members)),
        options_(std::move(options)),
        topic_name_(TopicName(options_.name)),
        call_(options_.first_call) {
    const auto mine =
        std::find(members_.begin(), members_.end(), transport_->rank());
    assert(mine != members_.end());
    rank_ = mine - members_.begin();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override {
    return static_cast<int64_t>(members_.size());
  }

  Result<Values> AllGather(const Meeting& meeting, std::string value) override {
    HF_ASSIGN_OR_RETURN(Values all,
                        Meet({meeting, std::move(value), Status(), AllOf}));
    if (all.size() != members_.size()) return BadAnswer(meeting);
    return all;
  }

  Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                std::string value) override {
    if (root < 0 || root >= size()) {
      return InvalidArgumentError("broadcast from rank " +
                                  std::to_string(root) + " of a group of " +
                                  std::to_string(size()));
    }
    if (rank_ != root) value.clear();
    HF_ASSIGN_OR_RETURN(
        Values one, Meet({meeting, std::move(value), Status(), OneOf, root}));
    if (one.size() != 1) return BadAnswer(meeting);
    return std::move(one[0]);
  }

  Status Agree(const Meeting& meeting, const Status& mine) override {
    if (size() == 1) return mine;
    return Meet({meeting, "", mine}).status();
  }

  std::unique_ptr<ProcessGroup> Subgroup(const std::vector<int64_t>& ranks,
                                         std::string_view name) override {
    std::vector<int64_t> members;
    for (const int64_t rank : ranks) {
      assert(rank >= 0 && rank < size());
      members.push_back(members_[rank]);
    }
    ProcessGroupOptions options = options_;
    options.name += "/" + std::string(name);
    options.first_call = 0;
    return std::make_unique<StarGroup>(transport_, std::move(members),
                                       std::move(options));
  }

  void BeginCall() override {
    if (depth_++ == 0) failed_ranks_.clear();
  }

  void EndCall(const Status& mine, double wait_seconds_max) override {
    if (depth_ == 0) return;
    if (!mine.ok() && left_.ok() && size() > 1) {
      TryLeave(mine, wait_seconds_max);
    }
    if (--depth_ > 0) return;
    ++call_;
    meeting_ = 0;
    left_ = Status();
  }

  uint64_t call_number() const override { return call_; }
  std::vector<int64_t> failed_ranks() const override { return failed_ranks_; }

 private:
  Result<Values> Meet(Visit visit) {
    if (!left_.ok()) return left_;
    BeginCall();
    const MeetScope scope(visit.meeting.phase, visit.meeting.file);
    const double timeout_seconds = TimeoutOf(visit);
    const auto take_part = [&] {
      return rank_ == 0 ? Hold(visit, timeout_seconds)
                        : Attend(visit, timeout_seconds);
    };
    Outcome outcome = take_part();
    while (outcome.is_past) {
      ++call_;
      if (!options_.may_follow) break;
      outcome = take_part();
    }
    ++meeting_;
    failed_ranks_ = std::move(outcome.failed_ranks);
    if (outcome.is_told) left_ = outcome.values.status();
    // If the others have not been sent the failure, a surrounding scope, if
    // any, reports it to them.
    EndCall(Status(), 0);
    return std::move(outcome.values);
  }

  // Reports a failure to the others at their next meeting, whatever its
  // purpose.
  void Leave(const Status& failure, double wait_seconds_max) {
    left_ = failure;
    failed_ranks_ = {members_[rank_]};
    if (rank_ == 0) {
      (void)Hold({{}, "", failure},
                 std::min(wait_seconds_max, options_.timeout_seconds));
    } else {
      SendLeave(meeting_, failure);
    }
  }

  // Like Leave, but treats running out of memory as a failed send, because
  // destructors call this too.
  void TryLeave(const Status& failure, double wait_seconds_max) {
    (void)CatchBadAlloc([&] {
      Leave(failure, wait_seconds_max);
      return Status();
    });
  }

  void SendLeave(uint64_t meeting, const Status& failure) {
    // If this fails too, the others notice only at their deadline.
    (void)transport_->Send(
        members_[0], Topic(meeting, "arrival"),
        EncodeFrame(ArrivalFrame{"", "", "", failure, true}));
  }

  // Takes part in a meeting on a rank other than 0.
  Outcome Attend(const Visit& visit, double timeout_seconds) {
    const ArrivalFrame arrival{std::string(visit.meeting.phase),
                               std::string(visit.meeting.file), visit.value,
                               visit.failure, false};
    const Status sent =
        transport_->Send(members_[0], Topic("arrival"), EncodeFrame(arrival));
    if (!sent.ok()) {
      const Status failure = sent.WithContext(visit.where());
      SendLeave(meeting_, failure);
      return {failure, true, false, {}};
    }
    Outcome outcome = Learn(visit, timeout_seconds);
    // Rank 0 may not know of the failure, so it is reported at the next
    // meeting.
    if (!outcome.values.ok() && !outcome.is_told) {
      SendLeave(meeting_ + 1, outcome.values.status());
      outcome.is_told = true;
    }
    return outcome;
  }

  Outcome Learn(const Visit& visit, double timeout_seconds) {
    const std::string where = visit.where();
    Result<Frame> frame = Await("answer", where, timeout_seconds, &visit);
    if (!frame.ok()) return {frame.status(), false, false, {}};
    if (const auto* waiting = std::get_if<WaitingFrame>(&*frame)) {
      const double seconds = static_cast<double>(waiting->milliseconds) / 1e3;
      frame = Await("verdict", where, seconds);
      if (!frame.ok()) return {frame.status(), false, false, {}};
    }
    if (auto* failure = std::get_if<FailureFrame>(&*frame)) {
      // A rank 0 that failed before its first meeting reports no phase.
      const bool is_past = meeting_ == 0 && failure->was_missed &&
                           !failure->phase.empty() &&
                           !visit.IsOf(failure->phase, failure->file);
      return {failure->status, true, is_past, std::move(failure->failed_ranks)};
    }
    auto* given = std::get_if<AnswerFrame>(&*frame);
    if (given == nullptr) return {BadAnswer(visit.meeting), false, false, {}};
    return {std::move(given->values), false, false, {}};
  }

  // Only ranks that are powers of two report that rank 0 is late.
  bool NamesRankZero() const { return (rank_ & (rank_ - 1)) == 0; }

  // Receives a message from rank 0. If `visit` is not null, rank 0 is reported
  // as late if nothing has arrived after a while.
  Result<std::string> ReceiveFromZero(std::string_view kind, double seconds,
                                      const Visit* visit) {
    if (visit == nullptr || !NamesRankZero() || seconds <= kLateSeconds) {
      return transport_->Receive(members_[0], Topic(kind), seconds);
    }
    Result<std::string> bytes =
        transport_->Receive(members_[0], Topic(kind), kLateSeconds);
    if (bytes.status().code() != StatusCode::kDeadlineExceeded) return bytes;
    NameLate(*visit, {0}, kLateSeconds);
    return transport_->Receive(members_[0], Topic(kind),
                               seconds - kLateSeconds);
  }

  Result<Frame> Await(std::string_view kind, const std::string& where,
                      double seconds, const Visit* visit = nullptr) {
    // Waits longer than rank 0 does, so that its answer, which names the
    // missing ranks, has time to arrive.
    const double timeout_seconds = seconds + std::max(0.5, seconds / 10);
    Result<std::string> bytes = ReceiveFromZero(kind, timeout_seconds, visit);
    if (!bytes.ok() && bytes.status().code() == StatusCode::kDeadlineExceeded) {
      return DeadlineExceededError(where + ": " + Missed({members_[0]}) +
                                   " of " + std::to_string(size()) +
                                   " did not answer within " +
                                   SecondsText(timeout_seconds));
    }
    if (!bytes.ok()) return bytes.status().WithContext(where);
    Result<Frame> frame = DecodeFrame(*bytes);
    if (!frame.ok()) {
      return frame.status().WithContext(where + ": " + RankList({members_[0]}));
    }
    return frame;
  }

  // Runs a meeting on rank 0.
  Outcome Hold(const Visit& visit, double timeout_seconds) {
    Collected collected;
    collected.arrivals.resize(members_.size());
    collected.was_told.resize(members_.size());
    collected.arrivals[0] = ArrivalFrame{std::string(visit.meeting.phase),
                                         std::string(visit.meeting.file),
                                         visit.value, visit.failure, false};
    const Status gathered = Collect(visit, timeout_seconds, collected);
    if (visit.failure.ok() && gathered.ok()) {
      if (auto other = DeadCall(visit, collected)) {
        return FollowPast(*other, collected);
      }
    }
    FailureFrame failure =
        FailureOf(visit, gathered, timeout_seconds, collected);
    if (!failure.status.ok()) {
      (void)Tell(collected, failure);
      return {failure.status, true, false, std::move(failure.failed_ranks)};
    }
    Values values;
    for (auto& arrival : collected.arrivals) {
      values.push_back(std::move(arrival->value));
    }
    AnswerFrame answer{visit.answer(std::move(values), visit.root)};
    const Status sent = Tell(collected, answer);
    if (!sent.ok()) return {sent.WithContext(visit.where()), false, false, {}};
    return {std::move(answer.values), false, false, {}};
  }

  // Receives all ranks' arrivals. Fails when a message cannot be received or
  // decoded, but not because of a failure that a message reports.
  Status Collect(const Visit& visit, double timeout_seconds,
                 Collected& collected) {
    const auto start = WaitClock::now();
    const auto deadline = start + WaitTime(timeout_seconds);
    // If rank 0 itself was late, the waiting ranks must learn that it has
    // arrived.
    const auto note_time =
        start + WaitTime(std::min(1.0, timeout_seconds / 20));
    HF_RETURN_IF_ERROR(ReceiveMissing(visit, note_time, collected));
    if (collected.Missing().empty() || collected.HasStrangers()) {
      return Status();
    }
    HF_RETURN_IF_ERROR(SendNotes(visit, deadline, collected));
    double named_seconds = kLateSeconds;
    for (auto named = start + WaitTime(named_seconds);
         named < deadline && !collected.Missing().empty();
         named = start + WaitTime(named_seconds)) {
      HF_RETURN_IF_ERROR(ReceiveMissing(visit, named, collected));
      NameLate(visit, collected.Missing(), named_seconds);
      named_seconds *= kLateGrowth;
    }
    return ReceiveMissing(visit, deadline, collected);
  }

  // Reports the ranks that the others wait for, and where these were last seen.
  void NameLate(const Visit& visit, const std::vector<int64_t>& members,
                double seconds) const {
    RanksByText texts;
    CallRecord* const call = CallRecord::OfThread();
    size_t known_count = 0;
    for (const int64_t member : members) {
      std::string known;
      if (call != nullptr && known_count < kKnownRanksMax) {
        known = call->OtherRank(member);
        known_count += known.empty() ? 0 : 1;
      }
      texts.Add(known.empty() ? "not heard from" : known, members_[member]);
    }
    if (members.empty()) return;
    SayLate(visit.where() + ": waited " + SecondsText(seconds) + " of " +
            SecondsText(TimeoutOf(visit)) + " for " + texts.Join(": "));
  }

  double TimeoutOf(const Visit& visit) const {
    return visit.meeting.timeout_seconds.value_or(options_.timeout_seconds);
  }

  // Receives the missing arrivals. After the deadline it still takes messages
  // that have arrived already.
  Status ReceiveMissing(const Visit& visit, WaitClock::time_point deadline,
                        Collected& collected) {
    for (const int64_t member : collected.Missing()) {
      Result<std::string> bytes = transport_->Receive(
          members_[member], Topic("arrival"), SecondsUntil(deadline));
      if (!bytes.ok() &&
          bytes.status().code() == StatusCode::kDeadlineExceeded) {
        continue;
      }
      const std::string where =
          visit.where() + ": " + RankList({members_[member]});
      if (!bytes.ok()) return bytes.status().WithContext(where);
      Result<Frame> frame = DecodeFrame(*bytes);
      if (!frame.ok()) return frame.status().WithContext(where);
      auto* arrival = std::get_if<ArrivalFrame>(&*frame);
      if (arrival == nullptr) {
        return DataLossError(where + ": sent an answer instead of its arrival");
      }
      collected.arrivals[member] = std::move(*arrival);
    }
    return Status();
  }

  Status SendNotes(const Visit& visit, WaitClock::time_point deadline,
                   Collected& collected) {
    const std::string note = EncodeFrame(
        WaitingFrame{static_cast<uint64_t>(SecondsUntil(deadline) * 1e3)});
    for (int64_t member = 1; member < size(); ++member) {
      const std::optional<ArrivalFrame>& arrival = collected.arrivals[member];
      if (!arrival || arrival->leaves) continue;
      collected.was_told[member] = true;
      HF_RETURN_IF_ERROR(
          transport_->Send(members_[member], Topic("answer"), note)
              .WithContext(visit.where() + ": " +
                           RankList({members_[member]})));
    }
    return Status();
  }

  // If the others began this call without rank 0 and gave up waiting, returns
  // where one of them was in the call.
  std::optional<ArrivalFrame> DeadCall(const Visit& visit,
                                       const Collected& collected) {
    if (meeting_ > 0) return std::nullopt;
    for (int64_t member = 1; member < size(); ++member) {
      const std::optional<ArrivalFrame>& arrival = collected.arrivals[member];
      if (!arrival || !arrival->failure.ok()) continue;
      if (visit.IsOf(arrival->phase, arrival->file)) continue;
      const auto left =
          transport_->Receive(members_[member], Topic(1, "arrival"), 0);
      if (left.ok()) return arrival;
    }
    return std::nullopt;
  }

  Outcome FollowPast(const ArrivalFrame& other, const Collected& collected) {
    const FailureFrame failure{
        DeadlineExceededError(Where(other.phase, other.file) + ": " +
                              RankList({members_[0]}) + " left it out"),
        {},
        false,
        other.phase,
        other.file};
    (void)Tell(collected, failure);
    return {failure.status, true, true, {}};
  }

  // Returns the failure to send to the ranks, with an ok status if nothing
  // failed.
  FailureFrame FailureOf(const Visit& visit, const Status& gathered,
                         double timeout_seconds,
                         const Collected& collected) const {
    FailureFrame failure{gathered,
                         {},
                         false,
                         std::string(visit.meeting.phase),
                         std::string(visit.meeting.file)};
    RanksByText texts;
    for (int64_t member = 0; member < size(); ++member) {
      const std::optional<ArrivalFrame>& arrival = collected.arrivals[member];
      if (!arrival || arrival->failure.ok()) continue;
      if (failure.failed_ranks.empty()) failure.status = arrival->failure;
      failure.failed_ranks.push_back(members_[member]);
      texts.Add(std::string(arrival->failure.message()), members_[member]);
    }
    if (!failure.failed_ranks.empty()) {
      failure.status = Status(failure.status.code(), texts.Join(": "));
    } else if (gathered.ok() && collected.HasStrangers()) {
      failure.status = DifferentPhases(visit, collected);
    } else if (gathered.ok() && !collected.Missing().empty()) {
      failure.status = DeadlineExceededError(
          visit.where() + ": " + Missed(WorldRanks(collected.Missing())) +
          " of " + std::to_string(size()) + " did not arrive within " +
          SecondsText(timeout_seconds));
    }
    return failure;
  }

  Status DifferentPhases(const Visit& visit, const Collected& collected) const {
    RanksByText phases;
    for (int64_t member = 0; member < size(); ++member) {
      const std::optional<ArrivalFrame>& arrival = collected.arrivals[member];
      if (!arrival) continue;
      const bool is_stranger = arrival->phase != visit.meeting.phase;
      phases.Add(is_stranger && arrival->file != visit.meeting.file
                     ? arrival->phase + " of " + arrival->file
                     : arrival->phase,
                 members_[member]);
    }
    return FailedPreconditionError(
        visit.where() +
        ": the ranks are in different phases: " + phases.Join(" at "));
  }

  // Sends the frame to every rank; a rank that arrives later finds it waiting.
  // Fails only if no rank could be reached. A single unreachable rank is missed
  // in the next meeting, but if no rank is reached, the others do not learn of
  // a failure.
  Status Tell(const Collected& collected, Frame frame) {
    Status first;
    bool is_told = false;
    for (int64_t member = 1; member < size(); ++member) {
      const std::optional<ArrivalFrame>& arrival = collected.arrivals[member];
      if (arrival && arrival->leaves) continue;
      if (auto* failure = std::get_if<FailureFrame>(&frame)) {
        failure->was_missed = !arrival;
      }
      const std::string_view kind =
          collected.was_told[member] ? "verdict" : "answer";
      const Status sent =
          transport_->Send(members_[member], Topic(kind), EncodeFrame(frame));
      is_told = is_told || sent.ok();
      if (sent.ok() || !first.ok()) continue;
      first = sent.WithContext(RankList({members_[member]}));
    }
    return is_told ? Status() : first;
  }

  // Returns the missing ranks and their hosts: "ranks 3, 4 (node-7, node-8)".
  std::string Missed(const std::vector<int64_t>& ranks) const {
    constexpr size_t kHostsMax = 4;
    std::string hosts;
    for (size_t i = 0; i < std::min(ranks.size(), kHostsMax); ++i) {
      const std::string host = transport_->HostOf(ranks[i]);
      if (!host.empty()) hosts += (hosts.empty() ? "" : ", ") + host;
    }
    return RankList(ranks) + (hosts.empty() ? "" : " (" + hosts + ")");
  }

  // Returns the members' ranks in the transport. Messages name processes by
  // these ranks, even in subgroups.
  std::vector<int64_t> WorldRanks(const std::vector<int64_t>& members) const {
    std::vector<int64_t> ranks;
    for (const int64_t member : members) ranks.push_back(members_[member]);
    return ranks;
  }

  Status BadAnswer(const Meeting& meeting) const {
    return DataLossError(Where(meeting.phase, meeting.file) + ": " +
                         RankList({members_[0]}) +
                         " sent an answer to another question");
  }

  std::string Topic(std::string_view kind) const {
    return Topic(meeting_, kind);
  }
  std::string Topic(uint64_t meeting, std::string_view kind) const {
    return topic_name_ + "/" + std::to_string(call_) + "/" +
           std::to_string(meeting) + "/" + std::string(kind);
  }

  std::shared_ptr<ProcessTransport> transport_;
  std::vector<int64_t> members_;
  ProcessGroupOptions options_;
  std::string topic_name_;
  int64_t rank_ = 0;
  uint64_t call_ = 0;     // the current call, or else the next
  uint64_t meeting_ = 0;  // the next in this call
  int depth_ = 0;         // nesting of BeginCalls
  Status left_;           // why this rank left the call; ok if it has not
  std::vector<int64_t> failed_ranks_;
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeProcessGroup(
    std::shared_ptr<ProcessTransport> transport,
    const ProcessGroupOptions& options) {
  assert(transport != nullptr);
  std::vector<int64_t> members = options.members;
  if (members.empty()) {
    members.resize(transport->size());
    std::iota(members.begin(), members.end(), int64_t{0});
  }
  return std::make_unique<StarGroup>(std::move(transport), std::move(members),
                                     options);
}

std::unique_ptr<ProcessGroup> SingleProcessGroup() {
  return MakeProcessGroup(MakeThreadTransports(1)[0]);
}

GroupCall::GroupCall(ProcessGroup* group) : group_(group) {
  if (group_ != nullptr) group_->BeginCall();
}

GroupCall::GroupCall(GroupCall&& other) noexcept
    : group_(std::exchange(other.group_, nullptr)) {}

// Also runs for calls that have ended, and when memory has run out.
GroupCall::~GroupCall() {
  if (group_ == nullptr) return;
  End(CatchBadAlloc([] { return CancelledError("left the call unfinished"); }));
}

void GroupCall::End(const Status& mine) {
  if (group_ == nullptr) return;
  std::exchange(group_, nullptr)
      ->EndCall(mine, std::numeric_limits<double>::infinity());
}

}  // namespace holdfast
