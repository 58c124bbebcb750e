// LiveSaves: lists the saves that are in progress at a root, with the phase of
// each rank.
//
//   auto saves = holdfast::LiveSaves("/ckpt");
//   for (const holdfast::LiveSave& save : *saves) {
//     for (const holdfast::LiveRank& rank : save.ranks) {
//       std::cout << rank.rank << " " << rank.phase << " " << rank.lag << "\n";
//   }
//   }
//
// A save with several ranks, or of at least 32 MiB, keeps a small status file
// for every rank in the directory that it writes, once it has taken a second.
// The files are renewed about once a second and removed before the commit. (In
// an object store, both times are ten seconds.) So reports may be that old, and
// a short save is never listed. LiveSaves locks nothing and does not disturb
// saves.
//
// Thread-safety: any thread, any process. Units: bytes, seconds.
// Errors: those of the file system or the bucket, for the root itself; a save
// that ends in the meantime is not an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// One process's part of a save, as it reports it.
struct LiveRank {
  int64_t rank = 0;
  int64_t rank_count = 1;
  std::string host;
  int64_t pid = 0;
  // "plan", "write", "sync", "meet" or "commit". "meet" is a wait for the other
  // ranks, with its reason, e.g. "meet: write".
  std::string phase;
  double phase_seconds = 0;  // time in this phase so far
  double total_seconds = 0;  // since the start of its save
  // Decoded bytes in the phase; both are 0 if nothing is counted.
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  double bytes_per_second = 0;
  // Time to the end of the phase at the current speed; absent if not known.
  std::optional<double> expected_seconds;
  double seen_seconds = 0;  // since its last report
  // In words, why other ranks wait for this rank, or will have to. Empty if it
  // does not lag.
  std::string lag;
};

struct LiveSave {
  std::string path;             // the checkpoint's, once it is committed
  std::string directory;        // where it is written
  std::vector<LiveRank> ranks;  // the known ranks, ascending
};

// Returns the saves in progress, sorted by path; empty if nothing exists at
// `root`. `root` is a directory of checkpoints, or the path of one checkpoint;
// it may be a URL.
Result<std::vector<LiveSave>> LiveSaves(const std::string& root);

}  // namespace holdfast
