// The word that a save leaves of one rank, for LiveSaves: a small file in the
// directory that it writes, `.live-<rank>.holdfast-tmp.0000000000000000`.
//
// The name is one of those that no listing shows (stores/storage/new_file.h):
// it is in no list of checksums, never in the way of an overwrite, and goes
// with the directory. It is never synced, and where it cannot be written
// nothing happens.
// Thread-safety: any thread. Units: bytes, seconds; nanoseconds since 1970.
// Errors: of Parse: DataLoss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ground/record/call_record.h"
#include "holdfast/tools/watch.h"
#include "stores/place/place.h"

namespace holdfast {

inline constexpr double kLiveFileSeconds = 1;
// Every request counts where each is paid for.
inline constexpr double kLiveObjectSeconds = 10;

// `rank` as of `written_ns`; seen_seconds, expected_seconds and lag are the
// reader's.
struct LiveRecord {
  LiveRank rank;
  int64_t written_ns = 0;
  double renewal_seconds = kLiveFileSeconds;  // to the next one
};

std::string LiveFileName(int64_t rank);
// Absent for other names.
std::optional<int64_t> RankOfLiveFile(std::string_view name);

std::string SerializeLive(const LiveRecord& record);
Result<LiveRecord> ParseLive(std::string_view text);

// Best effort, all three. A file that is gone is made again only when it
// `may_create`: the directory may be on its way out.
void WriteLive(const Place& directory, const LiveRecord& record,
               bool may_create = true);
void RemoveLive(const Place& directory, int64_t rank);
std::optional<LiveRecord> ReadLive(const Place& directory, int64_t rank);

// A save's word of itself: its record is published as live files in
// `directory` from now on, to the end of this object. Null: nothing is.
class LivePublication {
 public:
  LivePublication(CallRecord* call, const Place& directory);
  ~LivePublication();
  LivePublication(const LivePublication&) = delete;
  LivePublication& operator=(const LivePublication&) = delete;

  // Before the commit: nothing is there any more when it returns.
  void Stop();

 private:
  CallRecord* call_;
};

// Judges what the ranks of one save say, as it is at `now_ns`: who was not
// seen, and who is waited for. Pure, but for asking whether a process of this
// host is still there.
void JudgeLiveRanks(int64_t now_ns, const std::vector<LiveRecord>& records,
                    std::vector<LiveRank>& ranks);

}  // namespace holdfast
