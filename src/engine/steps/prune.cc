// PlanPrune and Prune: decide which steps are removed, and remove them.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/commit/replaceable.h"
#include "engine/format/directory_names.h"
#include "engine/references/reference_lock.h"
#include "engine/references/referrers.h"
#include "engine/steps/step_scan.h"
#include "ground/base/clock.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/steps.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_walk.h"
#include "stores/place/look.h"

namespace holdfast {
namespace {

constexpr std::string_view kNewestLabel = "the newest";

std::string PrefixOf(const std::string& name) {
  return name.substr(0, name.rfind('_') + 1);  // npos + 1 is 0
}

// Returns the format of names with this prefix. If names are padded with zeros,
// its length is that of most padded names.
std::shared_ptr<const StepNameFormat> FormatWithPrefix(
    const std::string& prefix, const std::vector<ScannedStep>& steps) {
  std::map<size_t, size_t> counts;
  for (const ScannedStep& step : steps) {
    const std::string digits = step.name.substr(PrefixOf(step.name).size());
    const bool is_filled = digits.size() > 1 && digits[0] == '0';
    if (PrefixOf(step.name) == prefix && is_filled) ++counts[digits.size()];
  }
  StandardNameOptions options;
  if (!prefix.empty()) {
    options.step_prefix = prefix.substr(0, prefix.size() - 1);
  }
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != counts.end()) {
    options.step_format_fixed_length = static_cast<int>(most->first);
  }
  return StandardNameFormat(options);
}

// Returns the format that most steps have.
Result<std::shared_ptr<const StepNameFormat>> FormatOf(
    const std::string& root, const std::vector<ScannedStep>& steps) {
  struct Candidate {
    std::shared_ptr<const StepNameFormat> format;
    size_t step_count = 0;
    std::string example;
  };
  std::map<std::string, Candidate> candidates;
  for (const ScannedStep& step : steps) {
    const std::string prefix = PrefixOf(step.name);
    Candidate& candidate = candidates[prefix];
    if (candidate.format == nullptr) {
      candidate.format = FormatWithPrefix(prefix, steps);
    }
    if (!candidate.format->StepOf(step.name)) continue;
    ++candidate.step_count;
    candidate.example = step.name;
  }
  const Candidate* best = nullptr;
  const Candidate* second = nullptr;
  for (const auto& [prefix, candidate] : candidates) {
    if (best == nullptr || candidate.step_count > best->step_count) {
      second = std::exchange(best, &candidate);
    } else if (second == nullptr || candidate.step_count > second->step_count) {
      second = &candidate;
    }
  }
  if (best == nullptr) return StandardNameFormat();
  // If two formats have equally many steps, a guess could remove the wrong
  // ones.
  if (second == nullptr || second->step_count < best->step_count) {
    return best->format;
  }
  return FailedPreconditionError(
      "prune " + root +
      ": refused, because as many checkpoints are named like " + best->example +
      " as like " + second->example +
      ", so it is unclear which of them are its steps");
}

// Leaves out directories that are named like steps but are not checkpoints. If
// any step is Orbax's, also leaves out steps of other formats: a run does not
// resume from them, so they must not cause the removal of its own steps.
Status LeaveOutStrangers(const Place& root, std::vector<ScannedStep>& steps,
                         std::vector<LeftAlone>& left_alone) {
  std::vector<ScannedStep> checkpoints;
  std::vector<ScannedStep> others;
  for (ScannedStep& step : steps) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(root / step.name));
    if (kind == PathKind::kSymlink) {
      left_alone.push_back({step.name, "a link"});
      continue;
    }
    HF_ASSIGN_OR_RETURN(const HeldFormat format,
                        FormatHeldAt(root / step.name));
    if (format == HeldFormat::kNone) {
      left_alone.push_back({step.name, "no checkpoint"});
    } else {
      (format == HeldFormat::kOrbax ? checkpoints : others)
          .push_back(std::move(step));
    }
  }
  if (checkpoints.empty()) {
    steps = std::move(others);
    return Status();
  }
  for (const ScannedStep& other : others) {
    left_alone.push_back({other.name, "a checkpoint of another format"});
  }
  steps = std::move(checkpoints);
  return Status();
}

// Adds to `left_alone` the other directories of the root: those that have no
// row, and are neither the trash nor the root's metadata.
Status ListOthers(const Place& root, const std::vector<PruneRow>& rows,
                  std::vector<LeftAlone>& left_alone) {
  std::set<std::string> known = {std::string(kTrashDirectoryName),
                                 std::string(kRootMetadataDirectory)};
  for (const PruneRow& row : rows) known.insert(row.step.name);
  for (const LeftAlone& other : left_alone) known.insert(other.name);
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(root));
  for (const std::string& name : names) {
    if (known.contains(name)) continue;
    HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(root / name));
    if (!is_directory) continue;
    left_alone.push_back({name, IsTemporaryName(name)
                                    ? "an unfinished save"
                                    : "not named as the steps are"});
  }
  std::sort(
      left_alone.begin(), left_alone.end(),
      [](const LeftAlone& a, const LeftAlone& b) { return a.name < b.name; });
  return Status();
}

// Returns the files of each step, and sets PruneRow::may_refer. Walks all steps
// concurrently.
Result<std::vector<std::vector<WalkedFile>>> FilesOf(
    const Place& root, std::vector<PruneRow>& rows) {
  std::vector<std::vector<WalkedFile>> files(rows.size());
  Executor executor;
  HF_RETURN_IF_ERROR(executor.ParallelFor(rows.size(), [&](size_t i, int) {
    const Place step = root / rows[i].step.name;
    PruneRow& row = rows[i];
    const Status walked = WalkFiles(
        step,
        [&](const WalkedFile& file) {
          if (file.path.ends_with(kBaseFile)) row.may_refer = true;
          files[i].push_back(file);
        },
        [&](const std::string&) { row.may_refer = true; });
    // Another process removed it in the meantime, so there is nothing to count.
    return walked.code() == StatusCode::kNotFound ? Status() : walked;
  }));
  return files;
}

// Returns the bytes that the removal frees. A file is freed when all of its
// names are removed.
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
                                                       : SystemNowNs()};
  for (const PruneRule& rule : options.keep) {
    HF_ASSIGN_OR_RETURN(const std::vector<bool> keep,
                        ShouldPreserve(rule.policy, records, context));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (keep[i]) rows[i].kept_by.push_back(rule.label);
    }
  }
  // The newest step is always kept, as a resuming run looks for it.
  if (!rows.empty() && rows.back().kept_by.empty()) {
    rows.back().kept_by.emplace_back(kNewestLabel);
  }
  return Status();
}

// Keeps the steps that a kept view or delta refers to.
Status KeepReferred(const Place& root, std::vector<PruneRow>& rows) {
  std::vector<std::string> going;
  for (const PruneRow& row : rows) {
    if (row.kept_by.empty()) going.push_back(row.step.name);
  }
  HF_ASSIGN_OR_RETURN(const auto needed, NeededByOthers(root, going));
  for (PruneRow& row : rows) {
    const auto by = needed.find(row.step.name);
    if (by != needed.end()) row.kept_by.push_back(by->second);
  }
  return Status();
}

// Checks that a step that the plan keeps still exists, since another process
// may be pruning the same root.
Status CheckSomethingStays(const std::string& root, const PrunePlan& plan) {
  for (const PruneRow& row : plan.rows) {
    if (row.kept_by.empty()) continue;
    const std::string path = root + "/" + row.step.name;
    HF_ASSIGN_OR_RETURN(const bool is_checkpoint, HoldsCheckpoint(path));
    if (is_checkpoint && IsPathFinalized(path)) return Status();
  }
  return FailedPreconditionError(
      "prune " + root +
      ": refused, because no step that the plan keeps exists any more");
}

}  // namespace

Result<PrunePlan> PlanPrune(const std::string& root,
                            const PruneOptions& options) {
  const LookScope scope(Place(root).Absolute());
  const Place& base = scope.place();
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(base));
  if (kind == PathKind::kMissing) {
    return NotFoundError("prune " + base.path() + ": no such directory");
  }
  ScanOptions scan;
  scan.format = options.format;
  HF_ASSIGN_OR_RETURN(std::vector<ScannedStep> steps, ScanStepsIn(base, scan));
  PrunePlan plan;
  HF_RETURN_IF_ERROR(LeaveOutStrangers(base, steps, plan.left_alone));
  std::shared_ptr<const StepNameFormat> format = options.format;
  if (format == nullptr) {
    HF_ASSIGN_OR_RETURN(format, FormatOf(base.path(), steps));
  }
  for (ScannedStep& step : steps) {
    if (!format->StepOf(step.name)) continue;
    plan.rows.push_back({std::move(step), 0, {}});
  }
  HF_RETURN_IF_ERROR(ListOthers(base, plan.rows, plan.left_alone));
  HF_RETURN_IF_ERROR(LabelRows(options, plan.rows));
  HF_RETURN_IF_ERROR(KeepReferred(base, plan.rows));
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
  std::set<std::string> referrers;
  for (const PruneRow& row : plan.rows) {
    if (!row.kept_by.empty()) continue;
    HF_ASSIGN_OR_RETURN(const bool is_checkpoint,
                        HoldsCheckpoint(base + "/" + row.step.name));
    if (!is_checkpoint) continue;
    names.push_back(row.step.name);
    if (row.may_refer) referrers.insert(row.step.name);
  }
  if (names.empty()) return names;
  // A delta may have been made since the plan.
  const ReferenceLock lock{Place(base)};
  HF_ASSIGN_OR_RETURN(const auto needed, NeededByOthers(Place(base), names));
  for (const auto& [name, by] : needed) std::erase(names, name);
  HF_RETURN_IF_ERROR(CheckSomethingStays(base, plan));
  // In this order, an interruption leaves no delta without its base: steps that
  // refer to others are removed first, in their own order, and then the rest.
  std::vector<std::string> order;
  std::vector<std::string> last;
  for (const std::string& name : names) {
    (referrers.contains(name) ? order : last).push_back(name);
  }
  order = ReferrersFirst(Place(base), order);
  order.insert(order.end(), last.begin(), last.end());
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      TrashSteps(base, order, TrashUse::kKeep));
  return names;
}

}  // namespace holdfast
