#include "tools/rescue/judge.h"

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/checkpoint/verify_unchecked.h"
#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/torch_file.h"
#include "tools/compare/slab_reader.h"

namespace holdfast {
namespace {

// Returns the leaf names that a damage report may mean. If there are several
// items, a report may use the leaf's name within its item.
std::vector<std::string> NamesMeant(const Damage& damage,
                                    const CheckpointInfo& info) {
  std::vector<std::string> names;
  if (damage.leaf.empty()) return names;
  names.push_back(damage.leaf);
  if (info.items.size() < 2) return names;
  for (const auto& [item, directory] : info.items) {
    if (damage.file.starts_with(directory + "/")) {
      names.push_back(item + "." + damage.leaf);
    }
  }
  return names;
}

// Sets the verdict's file and offset to the start of the leaf's elements, if a
// file stores them unchanged.
void FindPlace(const Checkpoint& checkpoint, size_t leaf, Verdict& verdict) {
  const Result<LeafExtents> found = ExtentsOf(checkpoint, leaf);
  if (!found.ok() || !found->why_not.empty() || found->extents.empty()) return;
  verdict.file = found->extents.front().file;
  verdict.offset = found->extents.front().offset;
}

Status TextStatus(const Checkpoint& checkpoint, size_t leaf) {
  HF_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(leaf));
  if (checkpoint.leaves()[leaf].kind != ValueKind::kObject) return Status();
  const Status parsed = ReadTorchFile(text).status();
  // A pickle that calls a forbidden function counts as damaged, because the
  // rescued checkpoint cannot store it.
  return parsed.code() == StatusCode::kPermissionDenied
             ? DataLossError(std::string(parsed.message()))
             : parsed;
}

}  // namespace

Result<std::vector<Verdict>> JudgeOrbax(const Checkpoint& checkpoint,
                                        const Place& place,
                                        const OpenOptions& options,
                                        const RunOptions& run,
                                        std::vector<std::string>& notes) {
  std::set<std::string> unchecked;
  HF_ASSIGN_OR_RETURN(
      const VerifyReport report,
      VerifyNotingUnchecked(place, options, run, nullptr, &unchecked));
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  const std::vector<LeafInfo>& leaves = checkpoint.leaves();
  std::vector<Verdict> verdicts(leaves.size());
  std::unordered_map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < leaves.size(); ++i) {
    verdicts[i].status = leaves[i].problem;
    verdicts[i].is_checked = !unchecked.contains(leaves[i].name);
    numbers.emplace(leaves[i].name, i);
  }
  std::vector<Damage> findings = report.damages;
  findings.insert(findings.end(), report.not_supported.begin(),
                  report.not_supported.end());
  for (const Damage& damage : findings) {
    bool is_of_leaf = false;
    for (const std::string& name : NamesMeant(damage, checkpoint.info())) {
      const auto found = numbers.find(name);
      if (found == numbers.end()) continue;
      is_of_leaf = true;
      Verdict& verdict = verdicts[found->second];
      // The verdict keeps the first damage with a file.
      if (verdict.file.empty()) {
        verdict = {damage.status, damage.file, damage.offset, true};
      }
    }
    if (!is_of_leaf) {
      notes.push_back((damage.file.empty() ? "" : damage.file + ": ") +
                      std::string(damage.status.message()));
    }
  }
  return verdicts;
}

Result<std::vector<Verdict>> JudgeByReading(const Checkpoint& checkpoint,
                                            const std::vector<size_t>& leaves,
                                            const RunOptions& run) {
  std::vector<Verdict> verdicts(checkpoint.leaves().size());
  std::vector<SlabTensor> tensors;
  std::vector<size_t> numbers;
  for (const size_t leaf : leaves) {
    const LeafInfo& info = checkpoint.leaves()[leaf];
    Status& status = verdicts[leaf].status;
    status = info.problem;
    if (!status.ok()) continue;
    if (HasText(info.kind)) {
      status = TextStatus(checkpoint, leaf);
      if (!status.ok() && !IsDamage(status)) return status;
    } else if (HasElements(info.kind) && info.dtype) {
      tensors.push_back({{{&checkpoint, leaf}}});
      numbers.push_back(leaf);
    }
  }
  Status trouble;
  SlabWork work;
  work.add = [](const Slab&) {};
  work.fail = [&](size_t tensor, const Status& status) {
    verdicts[numbers[tensor]].status = status;
    if (!IsDamage(status) && trouble.ok()) trouble = status;
  };
  Stats stats;
  HF_RETURN_IF_ERROR(ReadSlabs(tensors, work, run, "verify", stats));
  HF_RETURN_IF_ERROR(trouble);
  for (const size_t leaf : numbers) {
    if (!verdicts[leaf].status.ok())
      FindPlace(checkpoint, leaf, verdicts[leaf]);
  }
  return verdicts;
}

}  // namespace holdfast
