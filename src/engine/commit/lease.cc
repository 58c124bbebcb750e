#include "engine/commit/lease.h"

#include <unistd.h>

#include <array>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "ground/base/clock.h"
#include "ground/base/host_name.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "stores/place/directory_ops.h"
#include "stores/place/server_checks.h"
#include "stores/place/swap_file.h"
#include "stores/place/well_known_names.h"

namespace holdfast {

struct HeldLease {
  Place directory;
  std::mutex mutex;
  std::string text;                            // of the record, as it is stored
  std::chrono::steady_clock::time_point seen;  // held, at the last check
};

namespace {

// A saver gives up after being taken over this many times in a row.
constexpr int kTakeAttempts = 100;
// A server that breaks conditions this many times in a row ignores them.
constexpr int kAskAttempts = 3;
constexpr double kPollSeconds = 1;
// Renew a lease when a third of its time has passed.
constexpr double kRenewSeconds = SaveLease::kCommitSeconds / 3;
constexpr int64_t kNsASecond = 1'000'000'000;

constexpr std::array<std::string_view, 3> kStateNames = {
    "writing", "committing", "removing"};

std::mutex sleep_mutex;
std::function<void(double)> sleep_for_test;

void SleepAWhile() {
  std::function<void(double)> sleep;
  {
    const std::lock_guard lock(sleep_mutex);
    sleep = sleep_for_test;
  }
  if (sleep) return sleep(kPollSeconds);
  std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds));
}

// The leases of this process. Never destroyed: threads may save until the
// process ends.
struct HeldLeases {
  std::mutex mutex;
  std::vector<std::weak_ptr<HeldLease>> leases;
};

HeldLeases& AllHeld() {
  static auto* const held = new HeldLeases;
  return *held;
}

std::vector<std::shared_ptr<HeldLease>> HeldAbove(const std::string& path) {
  HeldLeases& all = AllHeld();
  std::vector<std::shared_ptr<HeldLease>> above;
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.leases, [](const auto& held) { return held.expired(); });
  for (const std::weak_ptr<HeldLease>& weak : all.leases) {
    const std::shared_ptr<HeldLease> held = weak.lock();
    if (held == nullptr) continue;
    const bool is_above = path == held->directory.path() ||
                          path.starts_with(held->directory.path() + "/");
    if (is_above) above.push_back(held);
  }
  return above;
}

Place LeaseOf(const Place& directory) { return directory / kSaveLease; }

LeaseRecord NewRecord() {
  LeaseRecord record;
  record.save_id = RandomHex32();
  record.host = HostName();
  record.pid = ::getpid();
  record.begun_ns = SystemNowNs();
  return record;
}

std::string UtcText(int64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / kNsASecond);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "an unknown time";
  char text[48];
  const size_t size =
      std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return std::string(text, size);
}

std::string HolderText(const LeaseRecord& lease) {
  return "process " + std::to_string(lease.pid) + " on host " + lease.host +
         " (begun " + UtcText(lease.begun_ns) + ")";
}

// Returns true while the holder is about to write the marker, has just written
// it, or is cleaning up. A removal that is only marked has not begun.
bool IsCommittingNow(const FileState& state) {
  const Result<LeaseRecord> holder = ParseLease(state.content);
  if (!holder.ok() || holder->state == LeaseRecord::State::kWriting) {
    return false;
  }
  const bool is_mark = holder->state == LeaseRecord::State::kRemoving &&
                       holder->renewal_count == 0;
  if (is_mark) return false;
  // If the server does not report its clock, the age is unknown and the lease
  // is respected.
  const double age_seconds =
      static_cast<double>(state.server_ns - state.modified_ns) / kNsASecond;
  return state.modified_ns == 0 || age_seconds < SaveLease::kCommitSeconds;
}

// Replaces the holder's lease, or creates one. Returns FailedPrecondition if a
// rival was faster, and AlreadyExists while the holder commits.
Status TakeOnce(const Place& place, const std::string& text, bool& had_holder) {
  const Result<FileState> holder = ReadFileState(place);
  had_holder = holder.ok();
  if (holder.status().code() == StatusCode::kNotFound) {
    return SwapFile(place, std::nullopt, text);
  }
  HF_RETURN_IF_ERROR(holder.status());
  if (IsCommittingNow(*holder)) {
    return AlreadyExistsError("save to " + place.parent().path() +
                              ": another save is committing there, or a "
                              "removal is under way");
  }
  // Succeeds only while the server still has the content read above, so one of
  // several takers wins.
  return SwapFile(place, holder->content, text);
}

// Returns ok while the server still has `text`.
Status CheckText(const Place& directory, const std::string& text) {
  const Result<FileState> now = ReadFileState(LeaseOf(directory));
  const std::string what = "save to " + directory.path() + ": ";
  if (now.status().code() == StatusCode::kNotFound) {
    return FailedPreconditionError(
        what + "its lease is gone: another save took over, or removed it");
  }
  HF_RETURN_IF_ERROR(now.status());
  if (now->content == text) return Status();
  const Result<LeaseRecord> holder = ParseLease(now->content);
  return FailedPreconditionError(
      what + "taken over by " +
      (holder.ok() ? HolderText(*holder) : "something unreadable"));
}

}  // namespace

std::string SerializeLease(const LeaseRecord& lease) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["save_id"] = lease.save_id;
  json["host"] = lease.host;
  json["pid"] = lease.pid;
  json["begun_ns"] = lease.begun_ns;
  json["state"] = kStateNames[static_cast<size_t>(lease.state)];
  json["renewal_count"] = lease.renewal_count;
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Result<LeaseRecord> ParseLease(std::string_view text) {
  const auto json = ParseJsonText(text);
  const auto bad = [](std::string_view why) {
    return DataLossError(std::string(kSaveLease) + ": " + std::string(why));
  };
  if (!json.ok() || !json->is_object()) return bad("not a JSON object");
  LeaseRecord lease;
  const auto text_of = [&](const char* key, std::string& out) {
    const auto found = json->find(key);
    if (found == json->end() || !found->is_string()) return false;
    out = found->get<std::string>();
    return true;
  };
  const auto number_of = [&](const char* key, int64_t& out) {
    const auto found = json->find(key);
    if (found == json->end() || !found->is_number_integer()) return false;
    out = found->get<int64_t>();
    return true;
  };
  std::string state;
  if (!text_of("save_id", lease.save_id) || !text_of("host", lease.host) ||
      !text_of("state", state)) {
    return bad("want texts save_id, host and state");
  }
  if (!number_of("pid", lease.pid) || !number_of("begun_ns", lease.begun_ns) ||
      !number_of("renewal_count", lease.renewal_count)) {
    return bad("want integers pid, begun_ns and renewal_count");
  }
  for (size_t i = 0; i < kStateNames.size(); ++i) {
    if (state != kStateNames[i]) continue;
    lease.state = static_cast<LeaseRecord::State>(i);
    return lease;
  }
  return bad("unknown state");
}

SaveLease::SaveLease(Place directory, LeaseRecord record, bool had_holder)
    : directory_(std::move(directory)),
      record_(std::move(record)),
      held_(std::make_shared<HeldLease>()),
      had_holder_(had_holder),
      renewed_(std::chrono::steady_clock::now()) {
  held_->directory = directory_;
  held_->text = SerializeLease(record_);
  held_->seen = renewed_;
  HeldLeases& all = AllHeld();
  const std::lock_guard lock(all.mutex);
  all.leases.push_back(held_);
}

std::string SaveLease::Text() const {
  const std::lock_guard lock(held_->mutex);
  return held_->text;
}

Result<SaveLease> SaveLease::TakeUnasked(const Place& directory) {
  const LeaseRecord record = NewRecord();
  Status taken;
  bool had_holder = false;
  for (int attempt = 0; attempt < kTakeAttempts; ++attempt) {
    taken = TakeOnce(LeaseOf(directory), SerializeLease(record), had_holder);
    if (taken.ok()) return SaveLease(directory, record, had_holder);
    if (taken.code() == StatusCode::kAlreadyExists) {
      SleepAWhile();
    } else if (taken.code() != StatusCode::kFailedPrecondition) {
      return taken;
    }
  }
  return taken;
}

Result<SaveLease> SaveLease::Take(const Place& directory) {
  const Place place = LeaseOf(directory);
  // The lease file itself is used to test whether the server honors conditions.
  for (int ask = 0; ask < kAskAttempts; ++ask) {
    HF_ASSIGN_OR_RETURN(SaveLease lease, TakeUnasked(directory));
    const Result<bool> honours = HonoursConditions(place);
    if (!honours.ok()) (void)lease.Release();
    HF_RETURN_IF_ERROR(honours.status());
    if (*honours) return lease;
  }
  HF_RETURN_IF_ERROR(TakeServerAsItIs(place));
  return TakeUnasked(directory);
}

Status SaveLease::CheckHeld() const { return CheckText(directory_, Text()); }

Status CheckLeasesAbove(const std::string& path, double age_seconds_max) {
  // Only this lease's mutex is held during the request.
  for (const std::shared_ptr<HeldLease>& held : HeldAbove(path)) {
    const std::lock_guard lock(held->mutex);
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> age = now - held->seen;
    // A recent answer is trusted, so that not every file costs a request.
    if (age.count() < age_seconds_max) continue;
    HF_RETURN_IF_ERROR(CheckText(held->directory, held->text));
    held->seen = now;
  }
  return Status();
}

Status SaveLease::Swap(LeaseRecord next) {
  const std::string text = SerializeLease(next);
  // Measured before the request, so that the server's time of the write is not
  // earlier.
  const auto begun = std::chrono::steady_clock::now();
  const Status swapped = SwapFile(LeaseOf(directory_), Text(), text);
  if (!swapped.ok()) {
    if (swapped.code() != StatusCode::kFailedPrecondition) return swapped;
    // Reports who took the lease over, if that can be determined.
    const Status why = CheckHeld();
    return why.ok() ? swapped : why;
  }
  record_ = std::move(next);
  renewed_ = begun;
  const std::lock_guard lock(held_->mutex);
  held_->text = text;
  held_->seen = begun;
  return Status();
}

Status SaveLease::BeginCommit() {
  LeaseRecord next = record_;
  next.state = LeaseRecord::State::kCommitting;
  return Swap(std::move(next));
}

Status SaveLease::KeepCommitting() {
  const std::chrono::duration<double> age =
      std::chrono::steady_clock::now() - renewed_;
  if (age.count() < kRenewSeconds) return Status();
  LeaseRecord next = record_;
  ++next.renewal_count;
  return Swap(std::move(next));
}

Status SaveLease::EndProtection() {
  LeaseRecord next = record_;
  next.state = LeaseRecord::State::kWriting;
  return Swap(std::move(next));
}

Status SaveLease::Release() {
  const std::string text = Text();
  const Status deleted = DeleteFileIf(LeaseOf(directory_), text);
  if (deleted.code() != StatusCode::kFailedPrecondition) return Status();
  // A lease next to a marker is a leftover, which another process may have
  // removed.
  const Result<FileState> now = ReadFileState(LeaseOf(directory_));
  const bool is_gone = now.status().code() == StatusCode::kNotFound;
  return is_gone ? Status() : CheckText(directory_, text);
}

bool HasLease(const Place& directory) {
  if (directory.can_rename()) return false;
  const Result<PathKind> kind = GetPathKind(LeaseOf(directory));
  return kind.ok() && *kind == PathKind::kFile;
}

// Writes the lease first: with it, a missing marker means "no checkpoint".
Status MarkForDeletion(const Place& directory) {
  LeaseRecord record = NewRecord();
  record.state = LeaseRecord::State::kRemoving;
  const std::shared_ptr<Store> store = directory.OpenStore();
  HF_RETURN_IF_ERROR(store->Write(kSaveLease, SerializeLease(record)));
  return store->Delete(kCommitMarkerFile);
}

bool IsMarkedForDeletion(const Place& directory) {
  if (!HasLease(directory) || HasCommitMarker(directory)) return false;
  const Result<FileState> state = ReadFileState(LeaseOf(directory));
  if (!state.ok()) return false;
  const Result<LeaseRecord> lease = ParseLease(state->content);
  return lease.ok() && lease->state == LeaseRecord::State::kRemoving;
}

Status RemoveMarked(const Place& directory) {
  const Place place = LeaseOf(directory);
  const Result<FileState> state = ReadFileState(place);
  if (state.status().code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(state.status());
  const Result<LeaseRecord> lease = ParseLease(state->content);
  const bool is_marked =
      lease.ok() && lease->state == LeaseRecord::State::kRemoving;
  if (!is_marked || HasCommitMarker(directory)) return Status();
  LeaseRecord record = NewRecord();
  record.state = LeaseRecord::State::kRemoving;
  // A removal that was only marked has 0 here. 1 means that it has begun, so
  // that savers wait for it (IsCommittingNow).
  record.renewal_count = 1;
  const Status taken = SwapFile(place, state->content, SerializeLease(record));
  // Another process saves there, or is removing the directory itself.
  if (taken.code() == StatusCode::kFailedPrecondition) return Status();
  HF_RETURN_IF_ERROR(taken);
  SaveLease held(directory, record, /*had_holder=*/true);
  return RemoveTree(directory, [&] { return held.KeepCommitting(); });
}

void SetLeaseSleepForTest(std::function<void(double seconds)> sleep) {
  const std::lock_guard lock(sleep_mutex);
  sleep_for_test = std::move(sleep);
}

}  // namespace holdfast
