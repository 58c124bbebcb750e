#include "holdfast/process_group.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "base/coding.h"
#include "base/status_macros.h"
#include "distributed/frame.h"
#include "distributed/rank_list.h"
#include "distributed/wait_time.h"

namespace holdfast {
namespace {

constexpr size_t kNameBytesMax = 150;  // leaves room for the rest of a topic

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

// A name that topics can hold, whatever the caller's is.
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
// What rank 0 makes of all ranks' values.
using AnswerFunction = Result<Values> (*)(const Values& values,
                                          const std::vector<int64_t>& members,
                                          int64_t root);

Result<Values> AllOf(const Values& values, const std::vector<int64_t>&,
                     int64_t) {
  return values;
}

Result<Values> OneOf(const Values& values, const std::vector<int64_t>&,
                     int64_t root) {
  return Values{values[root]};
}

Result<Values> NoneIfAllOk(const Values& values,
                           const std::vector<int64_t>& members, int64_t) {
  StatusCode code = StatusCode::kOk;
  RanksByText failures;
  for (size_t i = 0; i < values.size(); ++i) {
    Status status;
    if (!DecodeStatus(values[i], status)) {
      status = DataLossError("sent a status that cannot be understood");
    }
    if (status.ok()) continue;
    if (code == StatusCode::kOk) code = status.code();
    failures.Add(std::string(status.message()), members[i]);
  }
  if (code == StatusCode::kOk) return Values{};
  return Status(code, failures.Join(": "));
}

// One meeting as rank 0 holds it.
struct Collected {
  Values values;                              // by member
  std::vector<int64_t> missing;               // members, ascending
  std::vector<bool> was_told;                 // by member: got a WaitingFrame
  std::map<int64_t, ArrivalFrame> strangers;  // members in other phases
};

class StarGroup : public ProcessGroup {
 public:
  // `members`: the transport's ranks, ascending.
  StarGroup(std::shared_ptr<ProcessTransport> transport,
            std::vector<int64_t> members, ProcessGroupOptions options)
      : transport_(std::move(transport)),
        members_(std::move(members)),
        options_(std::move(options)),
        topic_name_(TopicName(options_.name)) {
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
    HF_ASSIGN_OR_RETURN(Values all, Meet(meeting, std::move(value), AllOf, 0));
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
    HF_ASSIGN_OR_RETURN(Values one,
                        Meet(meeting, std::move(value), OneOf, root));
    if (one.size() != 1) return BadAnswer(meeting);
    return std::move(one[0]);
  }

  Status Agree(const Meeting& meeting, const Status& mine) override {
    if (size() == 1) return mine;
    return Meet(meeting, EncodeStatus(mine), NoneIfAllOk, 0).status();
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
    return std::make_unique<StarGroup>(transport_, std::move(members),
                                       std::move(options));
  }

 private:
  Result<Values> Meet(const Meeting& meeting, std::string value,
                      AnswerFunction answer, int64_t root) {
    const uint64_t number = meeting_count_++;
    if (rank_ == 0)
      return Hold(number, meeting, std::move(value), answer, root);
    return Attend(number, meeting, std::move(value));
  }

  // The part of a rank other than 0.
  Result<Values> Attend(uint64_t number, const Meeting& meeting,
                        std::string value) {
    const std::string where = Where(meeting.phase, meeting.file);
    const ArrivalFrame arrival{std::string(meeting.phase),
                               std::string(meeting.file), std::move(value)};
    HF_RETURN_IF_ERROR(
        transport_
            ->Send(members_[0], Topic(number, "arrival"), EncodeFrame(arrival))
            .WithContext(where));
    HF_ASSIGN_OR_RETURN(
        Frame frame, Await(number, "answer", where, options_.timeout_seconds));
    if (const auto* waiting = std::get_if<WaitingFrame>(&frame)) {
      const double seconds = static_cast<double>(waiting->milliseconds) / 1e3;
      HF_ASSIGN_OR_RETURN(frame, Await(number, "verdict", where, seconds));
    }
    if (const auto* failure = std::get_if<FailureFrame>(&frame)) {
      return failure->status;
    }
    auto* given = std::get_if<AnswerFrame>(&frame);
    if (given == nullptr) return BadAnswer(meeting);
    return std::move(given->values);
  }

  Result<Frame> Await(uint64_t number, std::string_view kind,
                      const std::string& where, double seconds) {
    // Longer than rank 0 waits, so that its answer, which names the ranks that
    // are missing, has the time to come.
    const double timeout_seconds = seconds + std::max(0.5, seconds / 10);
    Result<std::string> bytes =
        transport_->Receive(members_[0], Topic(number, kind), timeout_seconds);
    if (!bytes.ok() && bytes.status().code() == StatusCode::kDeadlineExceeded) {
      return DeadlineExceededError(where + ": " + RankList({members_[0]}) +
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

  // The part of rank 0.
  Result<Values> Hold(uint64_t number, const Meeting& meeting,
                      std::string value, AnswerFunction answer, int64_t root) {
    Collected collected;
    collected.values.resize(members_.size());
    collected.values[0] = std::move(value);
    collected.was_told.resize(members_.size());
    const Status gathered = Collect(number, meeting, collected);
    Result<Values> verdict = gathered.ok()
                                 ? answer(collected.values, members_, root)
                                 : Result<Values>(gathered);
    const Status sent = Tell(number, meeting, collected, verdict);
    if (verdict.ok() && !sent.ok()) return sent;
    return verdict;
  }

  Status Collect(uint64_t number, const Meeting& meeting,
                 Collected& collected) {
    const auto start = WaitClock::now();
    const auto deadline = start + WaitTime(options_.timeout_seconds);
    for (int64_t member = 1; member < size(); ++member) {
      collected.missing.push_back(member);
    }
    // Those that wait must not take rank 0 for dead when it came late itself.
    const auto note_time =
        start + WaitTime(std::min(1.0, options_.timeout_seconds / 20));
    HF_RETURN_IF_ERROR(ReceiveMissing(number, meeting, note_time, collected));
    if (!collected.missing.empty() && collected.strangers.empty()) {
      HF_RETURN_IF_ERROR(SendNotes(number, meeting, deadline, collected));
      HF_RETURN_IF_ERROR(ReceiveMissing(number, meeting, deadline, collected));
    }
    if (!collected.strangers.empty()) {
      return DifferentPhases(meeting, collected);
    }
    if (!collected.missing.empty()) {
      return DeadlineExceededError(Where(meeting.phase, meeting.file) + ": " +
                                   RankList(WorldRanks(collected.missing)) +
                                   " of " + std::to_string(size()) +
                                   " did not come within " +
                                   SecondsText(options_.timeout_seconds));
    }
    return Status();
  }

  // Once the deadline is over, looks at who has come.
  Status ReceiveMissing(uint64_t number, const Meeting& meeting,
                        WaitClock::time_point deadline, Collected& collected) {
    std::vector<int64_t> missing;
    const std::string topic = Topic(number, "arrival");
    for (const int64_t member : collected.missing) {
      Result<std::string> bytes =
          transport_->Receive(members_[member], topic, SecondsUntil(deadline));
      if (!bytes.ok() &&
          bytes.status().code() == StatusCode::kDeadlineExceeded) {
        missing.push_back(member);
        continue;
      }
      const std::string where = Where(meeting.phase, meeting.file) + ": " +
                                RankList({members_[member]});
      if (!bytes.ok()) return bytes.status().WithContext(where);
      Result<Frame> frame = DecodeFrame(*bytes);
      if (!frame.ok()) return frame.status().WithContext(where);
      auto* arrival = std::get_if<ArrivalFrame>(&*frame);
      if (arrival == nullptr) {
        return DataLossError(where + ": answers where it should ask");
      }
      if (arrival->phase != meeting.phase) {
        collected.strangers[member] = std::move(*arrival);
        continue;
      }
      collected.values[member] = std::move(arrival->value);
    }
    collected.missing = std::move(missing);
    return Status();
  }

  Status SendNotes(uint64_t number, const Meeting& meeting,
                   WaitClock::time_point deadline, Collected& collected) {
    const std::string note = EncodeFrame(
        WaitingFrame{static_cast<uint64_t>(SecondsUntil(deadline) * 1e3)});
    size_t next_missing = 0;
    for (int64_t member = 1; member < size(); ++member) {
      if (next_missing < collected.missing.size() &&
          collected.missing[next_missing] == member) {
        ++next_missing;
        continue;
      }
      collected.was_told[member] = true;
      HF_RETURN_IF_ERROR(
          transport_->Send(members_[member], Topic(number, "answer"), note)
              .WithContext(Where(meeting.phase, meeting.file) + ": " +
                           RankList({members_[member]})));
    }
    return Status();
  }

  Status DifferentPhases(const Meeting& meeting,
                         const Collected& collected) const {
    RanksByText phases;
    for (int64_t member = 0; member < size(); ++member) {
      if (std::binary_search(collected.missing.begin(), collected.missing.end(),
                             member)) {
        continue;
      }
      const auto stranger = collected.strangers.find(member);
      if (stranger == collected.strangers.end()) {
        phases.Add(std::string(meeting.phase), members_[member]);
        continue;
      }
      const ArrivalFrame& arrival = stranger->second;
      phases.Add(arrival.file == meeting.file
                     ? arrival.phase
                     : arrival.phase + " of " + arrival.file,
                 members_[member]);
    }
    return FailedPreconditionError(
        Where(meeting.phase, meeting.file) +
        ": the ranks are in different phases: " + phases.Join(" at "));
  }

  // Everybody is told, also who has not come yet: it finds the answer waiting.
  Status Tell(uint64_t number, const Meeting& meeting,
              const Collected& collected, const Result<Values>& verdict) {
    const std::string bytes = verdict.ok()
                                  ? EncodeFrame(AnswerFrame{*verdict})
                                  : EncodeFrame(FailureFrame{verdict.status()});
    Status first;
    for (int64_t member = 1; member < size(); ++member) {
      const std::string topic =
          Topic(number, collected.was_told[member] ? "verdict" : "answer");
      const Status sent = transport_->Send(members_[member], topic, bytes);
      if (sent.ok() || !first.ok()) continue;
      first = sent.WithContext(Where(meeting.phase, meeting.file) + ": " +
                               RankList({members_[member]}));
    }
    return first;
  }

  // Messages name processes as their transport does, in subgroups too.
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

  std::string Topic(uint64_t number, std::string_view kind) const {
    return topic_name_ + "/" + std::to_string(number) + "/" + std::string(kind);
  }

  std::shared_ptr<ProcessTransport> transport_;
  std::vector<int64_t> members_;
  ProcessGroupOptions options_;
  std::string topic_name_;
  int64_t rank_ = 0;
  uint64_t meeting_count_ = 0;
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeProcessGroup(
    std::shared_ptr<ProcessTransport> transport,
    const ProcessGroupOptions& options) {
  assert(transport != nullptr);
  std::vector<int64_t> members;
  for (int64_t rank = 0; rank < transport->size(); ++rank) {
    members.push_back(rank);
  }
  return std::make_unique<StarGroup>(std::move(transport), std::move(members),
                                     options);
}

std::unique_ptr<ProcessGroup> SingleProcessGroup() {
  return MakeProcessGroup(MakeThreadTransports(1)[0]);
}

}  // namespace holdfast
