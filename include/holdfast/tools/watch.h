// LiveSaves: the saves that are under way at a root, and who is in which phase.
//
//   for (const holdfast::LiveSave& save : *holdfast::LiveSaves("/ckpt")) {
//     for (const holdfast::LiveRank& rank : save.ranks) {
//       std::cout << rank.rank << " " << rank.phase << " " << rank.lag << "\n";
//     }
//   }
//
// A save of several ranks, or of 32 MiB and more, that lasts longer than a
// second (in an object store: ten) leaves word of every rank in the directory
// that it writes, renewed about once a second (ten), which is gone before the
// commit. So what is told is that old, and a short save is never seen. Nothing
// is locked, and no save is disturbed.
// Thread-safety: any thread, any process. Units: bytes, seconds.
// Errors: those of the file system or the bucket, for the root itself; a save
// that ends meanwhile is not an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// The part of a save that one process reports.
struct LiveRank {
  int64_t rank = 0;
  int64_t rank_count = 1;
  std::string host;
  int64_t pid = 0;
  // "plan", "write", "sync", "meet", "commit"; with what it waits for the
  // others for, "meet: write".
  std::string phase;
  double phase_seconds = 0;  // so long in it, up to now
  double total_seconds = 0;  // since its save began
  // Decoded bytes of the phase; 0 of 0 where nothing is counted.
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  double bytes_per_second = 0;
  // From now to the end of the phase, at that speed; absent when not known.
  std::optional<double> expected_seconds;
  double seen_seconds = 0;  // since it last said something
  // Why the others wait for it, or will: in words. Empty: it does not lag.
  std::string lag;
};

struct LiveSave {
  std::string path;             // the checkpoint's, when it is committed
  std::string directory;        // where it is written
  std::vector<LiveRank> ranks;  // those that are known, ascending
};

// `root`: a directory of checkpoints, or the path of one; a URL, too. In the
// order of paths. Empty when nothing is being saved, or nothing is there.
Result<std::vector<LiveSave>> LiveSaves(const std::string& root);

}  // namespace holdfast
