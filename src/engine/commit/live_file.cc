#include "engine/commit/live_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "ground/base/clock.h"
#include "ground/base/host_name.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/storage/new_file.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {
namespace {

constexpr std::string_view kLivePrefix = ".live-";
// A rank is judged to have stopped when its renewal is overdue by this much.
constexpr double kSilentSeconds = 3;
// A rank is judged to be late when others have waited for it this long.
constexpr double kLateSeconds = 3;
constexpr size_t kLiveBytesMax = 64 << 10;

double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return std::max(0.0, static_cast<double>(to_ns - from_ns) / 1e9);
}

std::string WholeSeconds(double seconds) {
  constexpr double kLongest = 1e15;  // a file may contain anything
  return std::to_string(static_cast<int64_t>(std::min(seconds, kLongest))) +
         " s";
}

bool IsProcessGone(const LiveRank& rank) {
  return rank.pid > 1 && rank.host == HostName() &&
         ::kill(static_cast<pid_t>(rank.pid), 0) != 0 && errno == ESRCH;
}

bool IsMeeting(const LiveRank& rank) { return rank.phase.starts_with("meet"); }

std::optional<std::string> ReadSmallFile(const std::string& path) {
  const UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return std::nullopt;
  std::string text(kLiveBytesMax, '\0');
  const ssize_t count = ::read(fd.get(), text.data(), text.size());
  if (count < 0) return std::nullopt;
  text.resize(static_cast<size_t>(count));
  return text;
}

}  // namespace

std::string LiveFileName(int64_t rank) {
  return TempName(std::string(kLivePrefix.substr(1)) + std::to_string(rank), 0);
}

std::optional<int64_t> RankOfLiveFile(std::string_view name) {
  if (!name.starts_with(kLivePrefix) || !IsHiddenName(name)) {
    return std::nullopt;
  }
  int64_t rank = -1;
  const char* const begin = name.data() + kLivePrefix.size();
  const auto parsed = std::from_chars(begin, name.data() + name.size(), rank);
  if (parsed.ec != std::errc() || rank < 0) return std::nullopt;
  if (LiveFileName(rank) != name) return std::nullopt;
  return rank;
}

std::string SerializeLive(const LiveRecord& record) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const LiveRank& rank = record.rank;
  json["rank"] = rank.rank;
  json["rank_count"] = rank.rank_count;
  json["host"] = rank.host;
  json["pid"] = rank.pid;
  json["phase"] = rank.phase;
  json["phase_seconds"] = rank.phase_seconds;
  json["total_seconds"] = rank.total_seconds;
  json["done_bytes"] = rank.done_bytes;
  json["total_bytes"] = rank.total_bytes;
  json["bytes_per_second"] = rank.bytes_per_second;
  json["written_ns"] = record.written_ns;
  json["renewal_seconds"] = record.renewal_seconds;
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Result<LiveRecord> ParseLive(std::string_view text) {
  const auto json = ParseJsonText(text);
  if (!json.ok() || !json->is_object()) {
    return DataLossError("report of a live save: not a JSON object");
  }
  LiveRecord record;
  LiveRank& rank = record.rank;
  bool is_right = true;
  const auto take = [&](const char* key, auto& out, bool is_right_type) {
    if (!is_right_type) {
      is_right = false;
    } else {
      out = json->at(key).get<std::remove_reference_t<decltype(out)>>();
    }
  };
  const auto has = [&](const char* key, auto is_type) {
    const auto found = json->find(key);
    return found != json->end() && is_type(*found);
  };
  const auto text_of = [&](const char* key, std::string& out) {
    take(key, out, has(key, [](const auto& v) { return v.is_string(); }));
  };
  const auto count_of = [&](const char* key, auto& out) {
    take(key, out, has(key, [](const auto& v) {
           return v.is_number_integer() && v.template get<int64_t>() >= 0;
         }));
  };
  const auto seconds_of = [&](const char* key, double& out) {
    take(key, out, has(key, [](const auto& v) { return v.is_number(); }));
  };
  count_of("rank", rank.rank);
  count_of("rank_count", rank.rank_count);
  text_of("host", rank.host);
  count_of("pid", rank.pid);
  text_of("phase", rank.phase);
  seconds_of("phase_seconds", rank.phase_seconds);
  seconds_of("total_seconds", rank.total_seconds);
  count_of("done_bytes", rank.done_bytes);
  count_of("total_bytes", rank.total_bytes);
  seconds_of("bytes_per_second", rank.bytes_per_second);
  count_of("written_ns", record.written_ns);
  seconds_of("renewal_seconds", record.renewal_seconds);
  if (!is_right) return DataLossError("report of a live save: wrong fields");
  return record;
}

// Writes the file in one call, so that readers rarely see half of it.
void WriteLive(const Place& directory, const LiveRecord& record,
               bool may_create) {
  const std::string name = LiveFileName(record.rank.rank);
  const std::string text = SerializeLive(record);
  if (directory.is_remote()) {
    (void)directory.OpenStore()->Write(name, text, {.sync = false});
    return;
  }
  const std::string path = directory.path() + "/" + name;
  const int flags =
      O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (may_create ? O_CREAT : 0);
  const UniqueFd fd(::open(path.c_str(), flags, 0644));
  if (!fd.valid()) return;
  const ssize_t count = ::pwrite(fd.get(), text.data(), text.size(), 0);
  if (count == static_cast<ssize_t>(text.size())) {
    (void)!::ftruncate(fd.get(), count);
  }
}

void RemoveLive(const Place& directory, int64_t rank) {
  const std::string name = LiveFileName(rank);
  if (directory.is_remote()) {
    (void)directory.OpenStore()->Delete(name);
  } else {
    (void)::unlink((directory.path() + "/" + name).c_str());
  }
}

std::optional<LiveRecord> ReadLive(const Place& directory, int64_t rank) {
  const std::string name = LiveFileName(rank);
  std::optional<std::string> text;
  if (directory.is_remote()) {
    const Result<Bytes> bytes = directory.OpenStore()->Read(name);
    if (bytes.ok()) text = bytes->ToString();
  } else {
    text = ReadSmallFile(directory.path() + "/" + name);
  }
  if (!text) return std::nullopt;
  Result<LiveRecord> record = ParseLive(*text);
  if (!record.ok() || record->rank.rank != rank) return std::nullopt;
  return std::move(record).value();
}

namespace {

LiveRecord LiveRecordOf(const CallState& state, double renewal_seconds) {
  LiveRecord record;
  LiveRank& rank = record.rank;
  rank.rank = state.rank;
  rank.rank_count = state.rank_count;
  rank.host = HostName();
  rank.pid = ::getpid();
  rank.phase = state.phase;
  rank.phase_seconds = state.phase_seconds;
  rank.total_seconds = state.total_seconds;
  rank.done_bytes = state.done_bytes;
  rank.total_bytes = state.total_bytes;
  if (state.phase_seconds > 0 && !IsMeeting(rank)) {
    rank.bytes_per_second =
        static_cast<double>(state.done_bytes) / state.phase_seconds;
  }
  record.written_ns = SystemNowNs();
  record.renewal_seconds = renewal_seconds;
  return record;
}

// Returns "in write for 12 s on host a, process 7".
std::string WordsOf(const LiveRecord& record) {
  const double age = SecondsBetween(record.written_ns, SystemNowNs());
  return "in " + record.rank.phase + " for " +
         WholeSeconds(record.rank.phase_seconds + age) + " on host " +
         record.rank.host + ", process " + std::to_string(record.rank.pid);
}

}  // namespace

LivePublication::LivePublication(CallRecord* call, const Place& directory)
    : call_(call) {
  if (call_ == nullptr) return;
  const double seconds =
      directory.is_remote() ? kLiveObjectSeconds : kLiveFileSeconds;
  call_->Publish(
      {.first_seconds = seconds,
       .every_seconds = seconds,
       .publish =
           [directory, seconds,
            is_first = true](const CallState& state) mutable {
             WriteLive(directory, LiveRecordOf(state, seconds), is_first);
             is_first = false;
           },
       .withdraw = [directory, call] { RemoveLive(directory, call->rank()); },
       .other =
           [directory](int64_t rank) {
             const auto record = ReadLive(directory, rank);
             return record ? WordsOf(*record) : std::string();
           }});
}

LivePublication::~LivePublication() { Stop(); }

void LivePublication::Stop() {
  if (call_ != nullptr) call_->StopPublishing();
  call_ = nullptr;
}

void JudgeLiveRanks(int64_t now_ns, const std::vector<LiveRecord>& records,
                    std::vector<LiveRank>& ranks) {
  ranks.clear();
  double waited_seconds = 0;  // of the rank that waits longest
  for (const LiveRecord& record : records) {
    LiveRank& rank = ranks.emplace_back(record.rank);
    rank.seen_seconds = SecondsBetween(record.written_ns, now_ns);
    rank.phase_seconds += rank.seen_seconds;
    rank.total_seconds += rank.seen_seconds;
    if (rank.bytes_per_second > 0 && rank.total_bytes > rank.done_bytes) {
      const auto left = static_cast<double>(rank.total_bytes - rank.done_bytes);
      rank.expected_seconds =
          std::max(0.0, left / rank.bytes_per_second - rank.seen_seconds);
    }
    if (IsMeeting(rank)) {
      waited_seconds = std::max(waited_seconds, rank.phase_seconds);
    }
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    LiveRank& rank = ranks[i];
    if (IsProcessGone(rank)) {
      rank.lag = "its process has ended";
    } else if (rank.seen_seconds >
               records[i].renewal_seconds + kSilentSeconds) {
      rank.lag = "not heard from for " + WholeSeconds(rank.seen_seconds);
    } else if (waited_seconds > kLateSeconds && !IsMeeting(rank)) {
      rank.lag =
          "others have waited for it for " + WholeSeconds(waited_seconds);
    }
  }
}

namespace {

// A directory that a save to the root itself, or to one of its children, may be
// writing, and the path that the save is for.
struct Candidate {
  Place directory;
  Place final_place;
};

void AddCandidate(const Place& directory, std::vector<Candidate>& candidates) {
  const std::string name = directory.name();
  if (const auto final_name = FinalName(name)) {
    candidates.push_back({directory, directory.parent() / *final_name});
  } else if (!HasCommitMarker(directory)) {
    candidates.push_back({directory, directory});
  }
}

Result<std::vector<Candidate>> LiveCandidates(const Place& root) {
  std::vector<Candidate> candidates;
  const Place temporary = root.parent() / TemporaryName(root.name());
  if (root.can_rename() && !root.name().empty()) {
    candidates.push_back({temporary, root});
  }
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(root));
  if (!is_directory) return candidates;
  AddCandidate(root, candidates);
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(root));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const Place below = root / name;
    const Result<PathKind> kind = GetPathKind(below);
    if (kind.ok() && *kind == PathKind::kDirectory) {
      AddCandidate(below, candidates);
    }
  }
  return candidates;
}

std::vector<LiveRecord> RecordsIn(const Place& directory) {
  std::vector<LiveRecord> records;
  const auto names = ListDirectory(directory);
  if (!names.ok()) return records;  // not a directory, or just removed
  for (const std::string& name : *names) {
    const std::optional<int64_t> rank = RankOfLiveFile(name);
    if (!rank) continue;
    if (auto record = ReadLive(directory, *rank)) {
      records.push_back(*std::move(record));
    }
  }
  std::sort(records.begin(), records.end(),
            [](const LiveRecord& a, const LiveRecord& b) {
              return a.rank.rank < b.rank.rank;
            });
  return records;
}

}  // namespace

Result<std::vector<LiveSave>> LiveSaves(const std::string& root) {
  const LookScope scope(Place(root).Absolute());
  HF_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                      LiveCandidates(scope.place()));
  std::vector<LiveSave> saves;
  for (const Candidate& candidate : candidates) {
    const std::vector<LiveRecord> records = RecordsIn(candidate.directory);
    if (records.empty()) continue;
    LiveSave& save = saves.emplace_back();
    save.path = candidate.final_place.path();
    save.directory = candidate.directory.path();
    JudgeLiveRanks(SystemNowNs(), records, save.ranks);
  }
  std::sort(
      saves.begin(), saves.end(),
      [](const LiveSave& a, const LiveSave& b) { return a.path < b.path; });
  return saves;
}

}  // namespace holdfast
