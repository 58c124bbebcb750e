// The report of a running save about one rank, for LiveSaves: a small file in
// the directory that the save writes,
// `.live-<rank>.holdfast-tmp.0000000000000000`.
//
// Listings hide files with such names (stores/storage/new_file.h), so the file
// is in no list of checksums, is never in the way of an overwrite, and
// disappears with the directory. It is never synced, and failures to write it
// are ignored. Thread-safety: any thread. Units: bytes, seconds; nanoseconds
// since 1970. Errors: DataLoss, from ParseLive.
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
// Longer in object stores, where every request is paid for.
inline constexpr double kLiveObjectSeconds = 10;

// `rank` at the time `written_ns`; the reader fills in seen_seconds,
// expected_seconds and lag.
struct LiveRecord {
  LiveRank rank;
  int64_t written_ns = 0;
  double renewal_seconds = kLiveFileSeconds;  // until the next one
};

std::string LiveFileName(int64_t rank);
// Returns nullopt for other names.
std::optional<int64_t> RankOfLiveFile(std::string_view name);

std::string SerializeLive(const LiveRecord& record);
Result<LiveRecord> ParseLive(std::string_view text);

// These three are best effort. WriteLive creates a missing file only with
// `may_create`, since the directory may be about to be removed.
void WriteLive(const Place& directory, const LiveRecord& record,
               bool may_create = true);
void RemoveLive(const Place& directory, int64_t rank);
std::optional<LiveRecord> ReadLive(const Place& directory, int64_t rank);

// Publishes a save's call record as live files in `directory` for the lifetime
// of this object. With a null record it does nothing.
class LivePublication {
 public:
  LivePublication(CallRecord* call, const Place& directory);
  ~LivePublication();
  LivePublication(const LivePublication&) = delete;
  LivePublication& operator=(const LivePublication&) = delete;

  // Call before the commit: all live files are removed when this returns.
  void Stop();

 private:
  CallRecord* call_;
};

// Sets `ranks` from the reports of one save's ranks at the time `now_ns`,
// including which ranks have gone silent and which ones the others wait for.
// Pure, except that it checks whether processes of this host still exist.
void JudgeLiveRanks(int64_t now_ns, const std::vector<LiveRecord>& records,
                    std::vector<LiveRank>& ranks);

}  // namespace holdfast
