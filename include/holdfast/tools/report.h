// MakeReport: a checkpoint as one HTML file that needs nothing else.
//
//   holdfast::ReportOptions options;
//   options.against = "/ckpt/6";
//   auto report = holdfast::MakeReport("/ckpt/7", options);
//   std::ofstream("r.html") << report->html;
//
// The page has a map of the modules by parameters or bytes, a table of what is
// in each, and of every tensor its layout, statistics and a histogram; what
// Verify found; what is different from another checkpoint; and of a root of
// steps their sizes, times and metrics. It loads nothing from anywhere and runs
// no text of the checkpoint's. Tensors are read once, in the memory of
// RunOptions; the page is held whole: about 150 bytes a leaf, and 40 KiB.
// Thread-safety: any thread. Units: bytes, elements.
// Errors: those of Open, ComputeStats, Diff and Verify; a leaf that
// cannot be read is in the page, with the reason, and stops nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

struct ReportOptions {
  RunOptions run;  // phases "stats", "compare" and "verify"
  OpenOptions open;
  // Read the tensors; without, the page has what the metadata say.
  bool statistics = true;
  // Check every byte, as Verify does.
  bool verify = false;
  // Another checkpoint, or step, that this one is compared with.
  std::optional<std::string> against;
  // For a root: show how far each tensor moved from step to step, which reads
  // all of the newest steps (64 at most).
  bool moved = false;
  // A file that keeps the statistics (holdfast/tools/stats_cache.h): a tensor
  // that is in it is not read.
  std::optional<std::string> cache;
};

struct ReportResult {
  std::string html;  // UTF-8
  uint64_t leaf_count = 0;
  uint64_t unreadable_count = 0;     // without those that are not supported
  uint64_t not_supported_count = 0;  // leaves (IsNotSupported)
  uint64_t damage_count = 0;         // with `verify`
  uint64_t different_count = 0;      // with `against`; only on one side, too
  // Why the file of `cache` was left out, or could not be written; or empty.
  std::string cache_warning;
  double total_seconds = 0;
};

Result<ReportResult> MakeReport(const std::string& path,
                                const ReportOptions& options = {});

}  // namespace HOLDFAST_EXPORT
