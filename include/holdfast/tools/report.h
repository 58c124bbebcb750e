// MakeReport: describes a checkpoint in one self-contained HTML file.
//
//   holdfast::ReportOptions options;
//   options.against = "/ckpt/6";
//   auto report = holdfast::MakeReport("/ckpt/7", options);
//   std::ofstream("r.html") << report->html;
//
// The page has a map of the modules by parameters or bytes, a table of each
// module's contents, and every tensor's layout, statistics and histogram. It
// can also have the findings of Verify, the differences from another
// checkpoint, and for a root of steps their sizes, times and metrics. It loads
// nothing from elsewhere, and text from the checkpoint cannot run in it.
//
// Tensors are read once, within the memory limit of RunOptions. The complete
// page is held in memory: about 40 KiB, and 150 bytes per leaf.
//
// Thread-safety: any thread. Units: bytes, elements.
// Errors: those of Open, ComputeStats, Diff and Verify; a leaf that cannot be
// read is listed in the page, with the reason, and does not stop the report.
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
  // Read the tensors. If false, the page has only what the metadata say.
  bool statistics = true;
  // Check every byte, as Verify does.
  bool verify = false;
  // Another checkpoint or step to compare this one with.
  std::optional<std::string> against;
  // For a root: show how far each tensor moved from step to step. This reads
  // the newest steps, at most 64, completely.
  bool moved = false;
  // A file that keeps statistics (holdfast/tools/stats_cache.h). Tensors whose
  // statistics it has are not read.
  std::optional<std::string> cache;
};

struct ReportResult {
  std::string html;  // UTF-8
  uint64_t leaf_count = 0;
  uint64_t unreadable_count = 0;     // not counting unsupported leaves
  uint64_t not_supported_count = 0;  // leaves (IsNotSupported)
  uint64_t damage_count = 0;         // with `verify`
  uint64_t different_count = 0;      // with `against`; also one-sided leaves
  // Why the file of `cache` was ignored, or could not be written; otherwise
  // empty.
  std::string cache_warning;
  double total_seconds = 0;
};

Result<ReportResult> MakeReport(const std::string& path,
                                const ReportOptions& options = {});

}  // namespace HOLDFAST_EXPORT
