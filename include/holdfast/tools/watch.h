// LiveSaves: the saves that are in progress at a root, and the phase of each
// rank.
//
//   for (const holdfast::LiveSave& save : *holdfast::LiveSaves("/ckpt")) {
//     for (const holdfast::LiveRank& rank : save.ranks) {
//       std::cout << rank.rank << " " << rank.phase << " " << rank.lag << "\n";
//     }
//   }
//
// A save with several ranks, or of at least 32 MiB, that takes longer than a
// second (in an object store: ten) keeps a small status file for every rank in
// the directory that it writes. The files are renewed about once a second (ten)
// and removed before the commit. So reports may be that old, and a short save
// is never seen. Nothing is locked, and no save is disturbed.
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
  // "plan", "write", "sync", "meet" or "commit"; with the reason for waiting
  // for the others, e.g. "meet: write".
  std::string phase;
  double phase_seconds = 0;  // time in this phase so far
  double total_seconds = 0;  // since the start of its save
  // Decoded bytes in the phase; 0 of 0 if nothing is counted.
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  double bytes_per_second = 0;
  // Time to the end of the phase at the current speed; absent if not known.
  std::optional<double> expected_seconds;
  double seen_seconds = 0;  // since its last report
  // Why the others wait for it, or will, in words. Empty if it does not lag.
  std::string lag;
};

struct LiveSave {
  std::string path;             // the checkpoint's, once it is committed
  std::string directory;        // where it is written
  std::vector<LiveRank> ranks;  // the known ranks, ascending
};

// `root` is a directory of checkpoints, or the path of one; it may be a URL.
// Sorted by path. Empty if no save is in progress, or nothing exists at `root`.
Result<std::vector<LiveSave>> LiveSaves(const std::string& root);

}  // namespace holdfast
