// Finds out why a state after a crash is bad: which missing syncs would have
// prevented it.
//
// Thread-safety: one thread. Ownership: borrows the record.
// Errors: those of the judge.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/tools/prove.h"
#include "tools/powerloss/crash_states.h"
#include "tools/prove/saved.h"

namespace holdfast {

// Judges the state of a disk after `prefix` changes.
using StateJudgeFn = std::function<Result<std::vector<CrashFinding>>(
    const DiskState& state, size_t prefix)>;

// Collects bad states into risks; each combination of problem and cause appears
// once.
class CauseFinder {
 public:
  CauseFinder(const DiskRecord& record, StateJudgeFn judge);

  Status Add(const CrashState& crash, const DiskModel& model,
             const CrashFinding& finding);
  std::vector<CrashRisk> Take();

 private:
  using Nodes = std::set<NodeId>;
  // The problem, and the paths of the missing syncs.
  using Key = std::pair<CrashProblem, std::set<std::string>>;

  // One bad state of one checkpoint.
  struct Case {
    const CrashState& crash;
    const DiskModel& model;
    const CrashFinding& finding;
  };
  // Returns true if these syncs would remove at least this finding.
  Result<bool> IsRepairedBy(const Nodes& synced, const Case& bad) const;
  // Returns null if no known cause explains the state.
  Result<CrashRisk*> FindKnown(const Nodes& missing, const Case& bad);
  // Returns the nodes of a smallest set of syncs that helps; absent if no set
  // does.
  Result<std::optional<Nodes>> Search(const Nodes& missing,
                                      const Case& bad) const;
  void Simplify();
  MissingSync Describe(NodeId node, const Case& bad) const;
  std::string LabelOf(NodeId node, const std::string& checkpoint) const;

  const DiskRecord& record_;
  const StateJudgeFn judge_;
  const std::map<NodeId, std::string> paths_;
  Nodes directories_;
  std::map<Key, CrashRisk> risks_;
};

// Returns the last path of each node.
std::map<NodeId, std::string> LastPaths(const DiskRecord& record);
// Returns "after 17 of 300 changes: rename of a to b", for example.
std::string MomentText(const DiskRecord& record, size_t prefix,
                       const std::map<NodeId, std::string>& paths);

}  // namespace holdfast
