#include "holdfast/tools/report.h"

#include <span>
#include <utility>
#include <vector>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "holdfast/tools/diff.h"
#include "holdfast/tools/stats.h"
#include "holdfast/tools/stats_cache.h"
#include "tools/report/moved.h"
#include "tools/report/page.h"
#include "tools/report/report_data.h"

namespace holdfast {
namespace {

// Returns `page` with each "{{name}}" replaced. Inserted text is not scanned
// again.
std::string Filled(
    std::string_view page,
    std::span<const std::pair<std::string_view, std::string_view>> parts) {
  std::string filled;
  while (true) {
    const size_t open = page.find("{{");
    filled += page.substr(0, open);
    if (open == page.npos) return filled;
    const size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    for (const auto& [part, text] : parts) {
      if (part == name) filled += text;
    }
    page.remove_prefix(close + 2);
  }
}

// Returns the steps of `path` if it is a root, else an empty list.
std::vector<StepInfo> StepsOf(const std::string& path,
                              const Checkpoint& opened) {
  if (!opened.info().step || opened.info().path == path) return {};
  Result<std::vector<StepInfo>> steps = ListSteps(path);
  return steps.ok() ? std::move(steps).value() : std::vector<StepInfo>();
}

Result<ReportResult> Make(const std::string& path,
                          const ReportOptions& options) {
  Stopwatch watch;
  HF_ASSIGN_OR_RETURN(const auto checkpoint, Open(path, options.open));
  ReportData data;
  data.checkpoint = checkpoint.get();
  data.steps = StepsOf(path, *checkpoint);
  ReportResult result;
  result.leaf_count = checkpoint->leaves().size();
  for (const LeafInfo& leaf : checkpoint->leaves()) {
    if (IsNotSupported(leaf)) ++result.not_supported_count;
  }
  std::optional<StatsCache> cache;
  if (options.cache) cache.emplace(*options.cache);
  StatsResult stats;
  if (options.statistics) {
    StatsOptions how;
    how.run = options.run;
    how.histograms = true;
    if (cache) {
      how.cache = &*cache;
      how.identity = StatsCache::IdentityOf(*checkpoint);
    }
    HF_ASSIGN_OR_RETURN(stats, ComputeStats(*checkpoint, how));
    data.stats = &stats;
    for (const LeafStats& leaf : stats.leaves) {
      const bool is_unreadable =
          !leaf.problem.ok() && !IsNotSupported(leaf.problem);
      if (is_unreadable) ++result.unreadable_count;
    }
  }
  VerifyReport verified;
  if (options.verify) {
    HF_ASSIGN_OR_RETURN(
        verified, Verify(checkpoint->info().path, options.open, options.run));
    data.verified = &verified;
    result.damage_count = verified.damages.size();
  }
  DiffResult diff;
  if (options.against) {
    HF_ASSIGN_OR_RETURN(const auto other, Open(*options.against));
    DiffOptions how;
    how.run = options.run;
    how.find_renamed = false;
    HF_ASSIGN_OR_RETURN(diff, Diff(*checkpoint, *other, how));
    data.diff = &diff;
    data.against = other->info().path;
    result.different_count = diff.different_count + diff.only_in_a_count +
                             diff.only_in_b_count + diff.unreadable_count;
  }
  Moved moved;
  if (options.moved && !data.steps.empty()) {
    HF_ASSIGN_OR_RETURN(moved, WhatMoved(*checkpoint, data.steps, options.run,
                                         cache ? &*cache : nullptr));
    data.moved = &moved;
  }
  if (cache) {
    result.cache_warning = cache->warning();
    // A cache that cannot be written is only a warning: it would make the next
    // report faster, but the page is complete without it.
    const Status written = cache->Write();
    if (!written.ok()) result.cache_warning = written.message();
  }
  const std::string json = ReportJson(data);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"css", kPageCss}, {"data", json}, {"js", kPageJs}};
  result.html = Filled(kPageHtml, parts);
  result.total_seconds = watch.Lap();
  return result;
}

}  // namespace

Result<ReportResult> MakeReport(const std::string& path,
                                const ReportOptions& options) {
  return CatchBadAlloc([&] { return Make(path, options); });
}

}  // namespace holdfast
