// ReadStepLog.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/commit/step_list.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/step_record.h"
#include "holdfast/tools/history.h"
#include "tools/history/step_pairs.h"

namespace holdfast {
namespace {

LogEntry EntryOf(StepInfo step) {
  LogEntry entry;
  entry.metrics = MetricsOfJson(step.metrics).values;
  if (step.init_timestamp_ns && step.commit_timestamp_ns &&
      *step.commit_timestamp_ns >= *step.init_timestamp_ns) {
    entry.save_seconds = static_cast<double>(*step.commit_timestamp_ns -
                                             *step.init_timestamp_ns) /
                         1e9;
  }
  entry.step = std::move(step);
  return entry;
}

// Orders steps from newest to oldest. Uncommitted entries of a step precede
// committed ones.
bool IsNewer(const StepInfo& a, const StepInfo& b) {
  if (a.step != b.step) return a.step > b.step;
  if (a.committed != b.committed) return b.committed;
  return a.name > b.name;
}

// Returns the leaves that moved most, the largest movement first. Leaves that
// moved equally stay in order.
std::vector<MovedLeaf> MostMoved(const DriftResult& drift,
                                 const Checkpoint& now, size_t count_max) {
  std::vector<MovedLeaf> moved;
  for (const LeafDrift& leaf : drift.leaves) {
    if (!leaf.problem.ok() || leaf.moved == 0) continue;
    moved.push_back({now.leaves()[leaf.now].name, leaf.relative()});
  }
  std::stable_sort(moved.begin(), moved.end(),
                   [](const MovedLeaf& a, const MovedLeaf& b) {
                     return a.relative > b.relative;
                   });
  if (moved.size() > count_max) moved.resize(count_max);
  return moved;
}

// Fills in the movements of the entries, which describe the first
// `entries.size()` of `steps`. `steps` is sorted newest first.
Status AddMoved(const std::vector<StepInfo>& steps, const LogOptions& options,
                StatsCache* cache, std::vector<LogEntry>& entries) {
  std::unordered_map<const StepInfo*, LogEntry*> entry_of;
  std::vector<const StepInfo*> committed;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].committed) continue;
    committed.push_back(&steps[i]);
    if (i >= entries.size()) break;  // the step before the oldest entry
    entry_of[&steps[i]] = &entries[i];
  }
  std::reverse(committed.begin(), committed.end());
  return ForEachStepPair(
      committed, options.run, cache, [&](const StepPair& pair) {
        const auto found = entry_of.find(&pair.now);
        if (found == entry_of.end()) return;
        LogEntry& entry = *found->second;
        entry.moved_against = pair.before.name;
        if (!pair.drift.ok()) {
          entry.moved_problem = pair.drift.status().message();
          return;
        }
        entry.moved =
            MostMoved(*pair.drift, *pair.opened, options.moved_count_max);
      });
}

Result<StepLog> ReadLog(const std::string& root, const LogOptions& options) {
  // The movements of the oldest entry need the committed step before it,
  // however far back, so all steps are listed.
  HF_ASSIGN_OR_RETURN(
      std::vector<StepInfo> steps,
      ListNewestSteps(root, CommitMode::kAuto,
                      options.moved ? 0 : options.step_count_max));
  std::stable_sort(steps.begin(), steps.end(), IsNewer);
  const size_t count = options.step_count_max == 0
                           ? steps.size()
                           : std::min(steps.size(), options.step_count_max);
  StepLog log;
  for (size_t i = 0; i < count; ++i) log.entries.push_back(EntryOf(steps[i]));
  if (!options.moved) return log;
  std::optional<StatsCache> cache;
  if (options.cache) cache.emplace(*options.cache);
  HF_RETURN_IF_ERROR(
      AddMoved(steps, options, cache ? &*cache : nullptr, log.entries));
  if (cache) {
    log.cache_warning = cache->warning();
    const Status written = cache->Write();
    if (!written.ok()) log.cache_warning = written.message();
  }
  return log;
}

}  // namespace

Result<StepLog> ReadStepLog(const std::string& root,
                            const LogOptions& options) {
  return CatchBadAlloc([&] { return ReadLog(root, options); });
}

}  // namespace holdfast
