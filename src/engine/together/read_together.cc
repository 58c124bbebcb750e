// ReadTogether: holds the meetings in which ranks exchange messages. They are
// meetings of all ranks, of the ranks of a host, or of one rank per host. The
// other modules do the work between meetings.
#include "holdfast/read_together.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "engine/together/host.h"
#include "engine/together/host_read.h"
#include "engine/together/travel.h"
#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

constexpr size_t kProbeBytes = 4096;
constexpr char kWell = '+';  // begins the message of a rank that has not failed

// Returns the number of this call. The name of a subgroup must be new in its
// group, so it contains the number of rank 0's call.
uint64_t NextCallNumber() {
  static std::atomic<uint64_t> call_count{0};
  return ++call_count;
}

int ShareOfCpus(size_t rank_count) {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set) / static_cast<int>(rank_count));
}

// The first message of each rank, which describes it.
struct Greeting {
  uint64_t call_number = 0;
  SegmentName probe;  // to test whether memory can be shared
  std::string host;

  std::string Encode() const {
    std::string bytes;
    PutU64Little(bytes, call_number);
    return bytes + probe.Encode() + host;
  }
  static Result<Greeting> Decode(std::string_view bytes) {
    Greeting greeting;
    const size_t name_bytes = SegmentName().Encode().size();
    Cursor cursor(bytes);
    std::string_view name, host;
    if (!cursor.ReadU64Little(greeting.call_number) ||
        !cursor.ReadBytes(name_bytes, name) ||
        !cursor.ReadBytes(cursor.remaining(), host)) {
      return DataLossError("a greeting of " + std::to_string(bytes.size()) +
                           " bytes is damaged");
    }
    HF_ASSIGN_OR_RETURN(greeting.probe, SegmentName::Decode(name));
    greeting.host = host;
    return greeting;
  }
};

// The ranks that share this rank's host, and the leaders of all hosts.
struct Neighbours {
  std::vector<int64_t> ranks;    // ranks on this host, as numbered in the group
  std::vector<int64_t> leaders;  // lowest rank of each host, ascending
  uint64_t call_number = 0;
  std::string note;

  bool leads(int64_t rank) const { return ranks.front() == rank; }
};

// One call, on one rank.
class SharedRead {
 public:
  SharedRead(const Checkpoint& checkpoint,
             const std::vector<TogetherRequest>& requests, ProcessGroup& group,
             const ReadTogetherOptions& options)
      : checkpoint_(checkpoint),
        requests_(requests),
        group_(group),
        options_(options) {}

  Result<ReadTogetherResult> Read() {
    Stopwatch total;
    const Status wanted = CatchBadAlloc([&] { return ListWanted(); });
    HF_RETURN_IF_ERROR(FindNeighbours());
    result_.host_rank_count = static_cast<int64_t>(neighbours_.ranks.size());
    result_.note = neighbours_.note;
    RunOptions run_options = options_.run;
    // Threads that wait for a server need no processor; Run limits their
    // number.
    if (run_options.threads == 0 &&
        !Place(checkpoint_.info().path).is_remote()) {
      run_options.threads = ShareOfCpus(neighbours_.ranks.size());
    }
    const std::string call = "read " + std::to_string(neighbours_.call_number);
    host_group_ = group_.Subgroup(neighbours_.ranks, call + " host");
    if (has_travel() && neighbours_.leads(group_.rank())) {
      leaders_ = group_.Subgroup(neighbours_.leaders, call + " leaders");
    }
    HostRead host(checkpoint_, run_options,
                  static_cast<uint32_t>(host_group_->rank()),
                  static_cast<uint32_t>(host_group_->size()));
    Status read = ReadOnHost(wanted, host);
    if (IsLost(read)) return read;
    host.LetGo();
    if (read.ok()) read = CatchBadAlloc([&] { return MakeArrays(host); });
    HF_RETURN_IF_ERROR(Finish(read));
    FillRepeated();
    result_.stats.total_seconds = total.Lap();
    return std::move(result_);
  }

 private:
  bool has_travel() const {
    return options_.broadcast_bytes_max > 0 && neighbours_.leaders.size() > 1;
  }
  Meeting At(std::string_view phase) const {
    return {phase, checkpoint_.info().path};
  }

  // Exchanges the values of all ranks, in one meeting. Fails on every rank if
  // any rank has failed.
  static Result<std::vector<std::string>> Meet(
      ProcessGroup& group, const Meeting& meeting,
      const Result<std::string>& mine) {
    HF_ASSIGN_OR_RETURN(
        std::vector<std::string> values,
        group.AllGather(meeting, mine.ok() ? kWell + *mine : std::string()));
    const bool all_are_well = std::all_of(
        values.begin(), values.end(),
        [](const std::string& value) { return value.starts_with(kWell); });
    if (!all_are_well) {
      // This second meeting collects the failures.
      HF_RETURN_IF_ERROR(group.Agree(meeting, mine.status()));
      return DataLossError("a rank says that it failed, but not why");
    }
    for (std::string& value : values) value.erase(0, 1);
    return values;
  }

  template <typename Fn>
  static Result<std::string> ValueOr(const Status& failure, Fn&& value) {
    if (!failure.ok()) return failure;
    return std::forward<Fn>(value)();
  }

  // Returns whether the status means that a rank has stopped coming to
  // meetings.
  static bool IsLost(const Status& status) {
    return status.code() == StatusCode::kDeadlineExceeded;
  }

  // Lists the boxes to read, from all requests.
  Status ListWanted() {
    for (const TogetherRequest& request : requests_) {
      if (request.leaf >= checkpoint_.leaves().size()) {
        return OutOfRangeError("leaf number " + std::to_string(request.leaf) +
                               " of " +
                               std::to_string(checkpoint_.leaves().size()));
      }
      const WantedBox wanted = WantedOf(request);
      HF_RETURN_IF_ERROR(checkpoint_.CheckRequest(
          {wanted.leaf,
           wanted.box.origin,
           {wanted.dtype, nullptr, wanted.box.shape,
            ContiguousStrides(wanted.box.shape, DTypeBytes(wanted.dtype))}}));
      if (!IsEmpty(wanted.box)) wanted_.push_back(wanted);
    }
    return Status();
  }

  WantedBox WantedOf(const TogetherRequest& request) const {
    const LeafInfo& leaf = checkpoint_.leaves()[request.leaf];
    const DType stored_dtype = leaf.dtype.value_or(DType::kUint8);
    return {request.leaf,
            {request.origin, request.shape},
            request.dtype.value_or(stored_dtype)};
  }

  Status FindNeighbours() {
    if (group_.size() == 1) {
      neighbours_ = {{0}, {0}, NextCallNumber(), ""};
      return Status();
    }
    Executor here(1);
    const auto probe = SharedSegment::Create(kProbeBytes, here);
    Greeting greeting{NextCallNumber(), {}, options_.host};
    if (greeting.host.empty()) greeting.host = HostKey();
    if (probe.ok()) greeting.probe = probe->segment.name();
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> messages,
                        group_.AllGather(At("read: greet"), greeting.Encode()));
    std::vector<Greeting> greetings;
    for (const std::string& message : messages) {
      HF_ASSIGN_OR_RETURN(greetings.emplace_back(), Greeting::Decode(message));
    }
    const Status shares = TryProbes(greetings, probe.status());
    HF_ASSIGN_OR_RETURN(
        const std::vector<std::string> answers,
        group_.AllGather(At("read: share"), std::string(shares.message())));
    SetNeighbours(greetings, answers);
    return Status();
  }

  // Returns ok when this rank can map the memory of every rank of its host.
  Status TryProbes(const std::vector<Greeting>& greetings,
                   const Status& own) const {
    HF_RETURN_IF_ERROR(own);
    for (size_t rank = 0; rank < greetings.size(); ++rank) {
      const bool is_other = static_cast<int64_t>(rank) != group_.rank();
      const bool is_near =
          greetings[rank].host == greetings[group_.rank()].host;
      if (!is_other || !is_near) continue;
      const auto opened =
          SharedSegment::Open(greetings[rank].probe, kProbeBytes);
      HF_RETURN_IF_ERROR(opened.status());
      HF_RETURN_IF_ERROR(opened->Map(SharedSegment::Sharing::kShared).status());
    }
    return Status();
  }

  // Sets `neighbours_`. `answers`, by rank, say why a rank cannot share memory;
  // empty if it can.
  void SetNeighbours(const std::vector<Greeting>& greetings,
                     const std::vector<std::string>& answers) {
    std::vector<std::string> hosts;
    std::vector<bool> shares;
    for (size_t rank = 0; rank < greetings.size(); ++rank) {
      hosts.push_back(greetings[rank].host);
      shares.push_back(answers[rank].empty());
      const bool is_mine = hosts.back() == greetings[group_.rank()].host;
      if (is_mine && !shares.back() && neighbours_.note.empty()) {
        neighbours_.note = "each rank of this host reads for itself: rank " +
                           std::to_string(rank) + ": " + answers[rank];
      }
    }
    const auto by_rank = RanksByHost(hosts, shares);
    neighbours_.ranks = by_rank[group_.rank()];
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      const auto leader = static_cast<int64_t>(rank);
      if (by_rank[rank].front() == leader) {
        neighbours_.leaders.push_back(leader);
      }
    }
    neighbours_.call_number = greetings[0].call_number;
  }

  // Holds the meetings of the host, and reads. A rank that has failed still
  // comes to every meeting and reports its failure, so that no rank waits for
  // it. When a rank is missing from a meeting, the others leave.
  Status ReadOnHost(Status mine, HostRead& host) {
    auto lists = Meet(*host_group_, At("read: requests"),
                      ValueOr(mine, [&] { return EncodeWanted(wanted_); }));
    mine = lists.status();
    if (IsLost(mine)) return mine;
    if (mine.ok())
      mine = CatchBadAlloc(
          [&] { return host.SetWanted(*std::move(lists), wanted_); });
    if (has_travel()) mine = PlanTravel(mine, host);
    if (IsLost(mine)) return mine;
    mine = Prepare(mine, host);
    if (mine.ok()) {
      mine = CatchBadAlloc([&] { return host.MapOthers(introductions_); });
    }
    if (mine.ok()) {
      mine = CatchBadAlloc([&] { return host.ReadMine(result_.stats); });
    }
    if (has_travel() && !IsLost(mine)) mine = Travel(mine, host);
    return mine;
  }

  // Leaders agree on which boxes travel, and inform the ranks of their hosts.
  Status PlanTravel(Status mine, HostRead& host) {
    if (leaders_) {
      auto lists = Meet(*leaders_, At("read: hosts"),
                        ValueOr(mine, [&] { return EncodeSlots(host); }));
      mine = lists.ok() ? MarkTrips(*std::move(lists), host) : lists.status();
      if (IsLost(mine)) return mine;
    }
    HF_ASSIGN_OR_RETURN(
        const std::vector<std::string> told,
        Meet(*host_group_, At("read: trips"), ValueOr(mine, [&] {
          return leaders_ ? EncodeTravel(host.slots()) : std::string();
        })));
    return leaders_ ? Status() : DecodeTravel(told[0], host.slots());
  }

  static std::string EncodeSlots(HostRead& host) {
    std::vector<WantedBox> wanted;
    for (const Slot& slot : host.slots()) wanted.push_back(slot.wanted);
    return EncodeWanted(wanted);
  }

  Status MarkTrips(std::vector<std::string> lists, HostRead& host) {
    lists[leaders_->rank()] = EncodeSlots(host);
    std::vector<std::vector<WantedBox>> wanted;
    for (const std::string& list : lists) {
      HF_ASSIGN_OR_RETURN(wanted.emplace_back(), DecodeWanted(list));
    }
    trips_ = PlanTrips(wanted);
    MarkTravel(trips_, static_cast<uint32_t>(leaders_->rank()), host.slots());
    return Status();
  }

  Status Prepare(Status mine, HostRead& host) {
    Stopwatch watch;
    if (mine.ok()) mine = CatchBadAlloc([&] { return host.Plan(); });
    if (mine.ok()) mine = CatchBadAlloc([&] { return host.Allocate(); });
    HF_ASSIGN_OR_RETURN(
        introductions_,
        Meet(*host_group_, At("read: memory"),
             ValueOr(mine, [&] { return host.Introduction(); })));
    result_.stats.plan_seconds += watch.Lap();
    return Status();
  }

  // Sends the boxes that other hosts want, after all ranks of the host have
  // read.
  Status Travel(const Status& mine, HostRead& host) {
    const Status read = host_group_->Agree(At("read: chunks"), mine);
    if (!leaders_) return read;
    HF_RETURN_IF_ERROR(leaders_->Agree(At("read: chunks of hosts"), read));
    return MakeTrips(
        trips_, *leaders_, At("read: boxes"), options_.broadcast_bytes_max,
        [&](const WantedBox& wanted) { return host.MemoryOf(wanted); });
  }

  // Holds the last meeting of the call, in which the ranks exchange how much
  // each has read. After it, all ranks have read and have their arrays.
  Status Finish(const Status& mine) {
    std::string count;
    PutU64Little(count, result_.stats.stored_bytes);
    HF_ASSIGN_OR_RETURN(
        const std::vector<std::string> counts,
        Meet(group_, At("read"), ValueOr(mine, [&] { return count; })));
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      uint64_t byte_count = 0;
      if (!Cursor(counts[rank]).ReadU64Little(byte_count)) {
        return DataLossError("the count of rank " + std::to_string(rank) +
                             " is damaged");
      }
      const bool is_near =
          std::binary_search(neighbours_.ranks.begin(), neighbours_.ranks.end(),
                             static_cast<int64_t>(rank));
      result_.group_stored_bytes += byte_count;
      if (is_near) result_.host_stored_bytes += byte_count;
    }
    return Status();
  }

  Status MakeArrays(const HostRead& host) {
    for (const TogetherRequest& request : requests_) {
      const WantedBox wanted = WantedOf(request);
      Array& array = result_.arrays.emplace_back();
      if (IsEmpty(wanted.box)) {
        HF_ASSIGN_OR_RETURN(array,
                            Array::Allocate(wanted.dtype, wanted.box.shape));
        continue;
      }
      array = host.ArrayOf(wanted);
    }
    return SeparateRepeated();
  }

  // Replaces arrays that share memory with an earlier array of this call. Other
  // ranks may still be writing to that memory, so it is copied when all are
  // done.
  Status SeparateRepeated() {
    std::unordered_set<const char*> addresses;
    for (Array& array : result_.arrays) {
      const char* const address = array.view().data;
      if (array.byte_count() == 0 || addresses.insert(address).second) continue;
      HF_ASSIGN_OR_RETURN(Array copy,
                          Array::Allocate(array.dtype(), array.shape()));
      repeated_.push_back({std::move(array), copy.mutable_view().data});
      array = std::move(copy);
    }
    return Status();
  }

  void FillRepeated() {
    for (const auto& [source, target] : repeated_) {
      std::memcpy(target, source.view().data, source.byte_count());
    }
    repeated_.clear();
  }

  const Checkpoint& checkpoint_;
  const std::vector<TogetherRequest>& requests_;
  ProcessGroup& group_;
  const ReadTogetherOptions& options_;
  std::vector<WantedBox> wanted_;
  Neighbours neighbours_;
  std::unique_ptr<ProcessGroup> host_group_;
  std::unique_ptr<ProcessGroup> leaders_;  // null unless this rank is a leader
  // Boxes that are wanted more than once, and their further targets.
  std::vector<std::pair<Array, char*>> repeated_;
  std::vector<Trip> trips_;  // of a leader
  std::vector<std::string> introductions_;
  ReadTogetherResult result_;
};

}  // namespace

Result<ReadTogetherResult> ReadTogether(
    const Checkpoint& checkpoint, const std::vector<TogetherRequest>& requests,
    ProcessGroup& group, const ReadTogetherOptions& options) {
  return InGroupCall(&group, [&]() -> Result<ReadTogetherResult> {
    return CatchBadAlloc([&] {
      return SharedRead(checkpoint, requests, group, options).Read();
    });
  });
}

}  // namespace holdfast
