// PlanPrune and Prune: which steps go, and their going.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/executor.h"
#include "base/status_macros.h"
#include "checkpoint/layout.h"
#include "holdfast/steps.h"
#include "place/directory_ops.h"
#include "place/file_walk.h"
#include "steps/step_scan.h"

namespace holdfast {
namespace {

constexpr std::string_view kNewestLabel = "the newest";

// The files of each step, walked at once for all of them.
Result<std::vector<std::vector<WalkedFile>>> FilesOf(
    const std::string& root, const std::vector<PruneRow>& rows) {
  std::vector<std::vector<WalkedFile>> files(rows.size());
  Executor executor;
  HF_RETURN_IF_ERROR(executor.ParallelFor(rows.size(), [&](size_t i, int) {
    const std::string path = root + "/" + rows[i].step.name;
    const Status walked = WalkFiles(
        path, [&](const WalkedFile& file) { files[i].push_back(file); });
    // Removed by somebody else meanwhile: nothing to count.
    return walked.code() == StatusCode::kNotFound ? Status() : walked;
  }));
  return files;
}

// A file is freed when all of its names go.
uint64_t FreedBytes(const std::vector<PruneRow>& rows,
                    const std::vector<std::vector<WalkedFile>>& files) {
  struct Names {
    uint64_t bytes = 0;
    uint64_t link_count = 0;
    uint64_t gone_count = 0;
  };
  uint64_t freed = 0;
  std::map<std::pair<uint64_t, uint64_t>, Names> by_inode;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].kept_by.empty()) continue;
    for (const WalkedFile& file : files[i]) {
      if (file.link_count == 1) {
        freed += file.byte_count;
        continue;
      }
      Names& names = by_inode[{file.device, file.inode}];
      names.bytes = file.byte_count;
      names.link_count = file.link_count;
      ++names.gone_count;
    }
  }
  for (const auto& [inode, names] : by_inode) {
    if (names.gone_count >= names.link_count) freed += names.bytes;
  }
  return freed;
}

Status LabelRows(const PruneOptions& options, std::vector<PruneRow>& rows) {
  std::vector<StepRecord> records;
  for (const PruneRow& row : rows) records.push_back(RecordOf(row.step));
  const PreservationContext context{options.now_ns > 0 ? options.now_ns
                                                       : ClockNs()};
  for (const PruneRule& rule : options.keep) {
    HF_ASSIGN_OR_RETURN(const std::vector<bool> keep,
                        ShouldPreserve(rule.policy, records, context));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (keep[i]) rows[i].kept_by.push_back(rule.label);
    }
  }
  // Whoever resumes will look for it.
  if (!rows.empty() && rows.back().kept_by.empty()) {
    rows.back().kept_by.emplace_back(kNewestLabel);
  }
  return Status();
}

// Somebody else may prune the same root.
Status CheckSomethingStays(const std::string& root, const PrunePlan& plan) {
  const bool some_stay =
      std::any_of(plan.rows.begin(), plan.rows.end(), [&](const PruneRow& row) {
        return !row.kept_by.empty() &&
               IsPathFinalized(root + "/" + row.step.name);
      });
  if (some_stay) return Status();
  return FailedPreconditionError(
      "prune " + root +
      ": refused, because no step that the plan keeps is there any more");
}

}  // namespace

Result<PrunePlan> PlanPrune(const std::string& root,
                            const PruneOptions& options) {
  const std::string base = AbsolutePath(root);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(base));
  if (kind == PathKind::kMissing) {
    return NotFoundError("prune " + base + ": no such directory");
  }
  ScanOptions scan;
  scan.format = options.format;
  HF_ASSIGN_OR_RETURN(std::vector<ScannedStep> steps, ScanSteps(base, scan));
  PrunePlan plan;
  for (ScannedStep& step : steps) plan.rows.push_back({std::move(step), 0, {}});
  HF_RETURN_IF_ERROR(LabelRows(options, plan.rows));
  HF_ASSIGN_OR_RETURN(const auto files, FilesOf(base, plan.rows));
  for (size_t i = 0; i < files.size(); ++i) {
    for (const WalkedFile& file : files[i]) {
      plan.rows[i].bytes += file.byte_count;
    }
  }
  plan.freed_bytes = FreedBytes(plan.rows, files);
  return plan;
}

Result<std::vector<std::string>> Prune(const std::string& root,
                                       const PrunePlan& plan) {
  const std::string base = AbsolutePath(root);
  std::vector<std::string> names;
  for (const PruneRow& row : plan.rows) {
    if (row.kept_by.empty()) names.push_back(row.step.name);
  }
  if (names.empty()) return names;
  HF_RETURN_IF_ERROR(CheckSomethingStays(base, plan));
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      TrashSteps(base, names, TrashUse::kKeep));
  return names;
}

}  // namespace holdfast
