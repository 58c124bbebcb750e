#include "tools/prove/causes.h"

#include <algorithm>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

// Replaces long hexadecimal numbers in a path, which differ in every run.
std::string WithoutHex(const std::string& path) {
  constexpr size_t kHexMin = 16;
  std::string text;
  for (size_t at = 0; at < path.size();) {
    const size_t end =
        std::min(path.find_first_not_of("0123456789abcdef", at), path.size());
    if (end - at >= kHexMin) {
      text += '*';
    } else {
      text += path.substr(at, end - at);
    }
    if (end < path.size()) text += path[end];
    at = end + 1;
  }
  return text;
}

// Returns `path` with STEP in place of the checkpoint's name or temporary name.
std::string Generalized(const std::string& path,
                        const std::string& checkpoint) {
  if (path == "." || checkpoint == "." || checkpoint.empty()) {
    return WithoutHex(path);
  }
  if (!path.starts_with(checkpoint)) return WithoutHex(path);
  const size_t end = path.find('/', checkpoint.size());
  const bool is_whole = end == std::string::npos;
  return "STEP" + (is_whole ? "" : WithoutHex(path.substr(end)));
}

}  // namespace

std::string MomentText(const DiskRecord& record, size_t prefix,
                       const std::map<NodeId, std::string>& paths) {
  constexpr std::string_view kKinds[] = {"creation", "mkdir",   "write",
                                         "resize",   "rename",  "exchange",
                                         "link",     "removal", "sync"};
  std::string text = "after " + std::to_string(prefix) + " of " +
                     std::to_string(record.changes.size()) + " changes";
  if (prefix == 0) return text;
  const DiskChange& last = record.changes[prefix - 1];
  const auto it = paths.find(last.node);
  const std::string name = it != paths.end() ? it->second : last.name;
  text += ": " + std::string(kKinds[static_cast<size_t>(last.kind)]);
  if (last.kind == Kind::kMove || last.kind == Kind::kExchange) {
    return text + " of " + last.name + " to " + last.to_name;
  }
  return name.empty() ? text : text + " of " + name;
}

std::map<NodeId, std::string> LastPaths(const DiskRecord& record) {
  DiskState state = record.start;
  std::map<NodeId, std::string> last = state.Paths();
  for (const DiskChange& change : record.changes) {
    state.Apply(change);
    if (change.is_data() || change.kind == Kind::kSync) continue;
    for (const auto& [node, path] : state.Paths()) last[node] = path;
  }
  return last;
}

CauseFinder::CauseFinder(const DiskRecord& record, StateJudgeFn judge)
    : record_(record), judge_(std::move(judge)), paths_(LastPaths(record)) {
  directories_.insert(kRootNode);
  for (const DiskChange& change : record.changes) {
    if (change.parent != kNoNode) directories_.insert(change.parent);
    if (change.to_parent != kNoNode) directories_.insert(change.to_parent);
  }
}

Result<bool> CauseFinder::IsRepairedBy(const Nodes& synced,
                                       const Case& bad) const {
  const DiskState state =
      StateAfter(bad.model, bad.crash.loss, bad.crash.seed, [&](size_t index) {
        const std::vector<NodeId> nodes = bad.model.MissingSyncs(index);
        return std::all_of(nodes.begin(), nodes.end(),
                           [&](NodeId node) { return synced.contains(node); });
      });
  const auto findings = judge_(state, bad.crash.prefix);
  if (!findings.ok()) return findings.status();
  return std::none_of(findings->begin(), findings->end(),
                      [&](const CrashFinding& other) {
                        return other.problem == bad.finding.problem &&
                               other.checkpoint == bad.finding.checkpoint;
                      });
}

Result<std::optional<CauseFinder::Nodes>> CauseFinder::Search(
    const Nodes& missing, const Case& bad) const {
  const auto all = IsRepairedBy(missing, bad);
  if (!all.ok()) return all.status();
  if (!*all) return std::optional<Nodes>();
  for (const NodeId node : missing) {
    const auto alone = IsRepairedBy({node}, bad);
    if (!alone.ok()) return alone.status();
    if (*alone) return std::optional<Nodes>({node});
  }
  Nodes needed = missing;
  for (const NodeId node : missing) {
    Nodes fewer = needed;
    fewer.erase(node);
    const auto without = IsRepairedBy(fewer, bad);
    if (!without.ok()) return without.status();
    if (*without) needed = std::move(fewer);
  }
  return std::optional<Nodes>(std::move(needed));
}

std::string CauseFinder::LabelOf(NodeId node,
                                 const std::string& checkpoint) const {
  const auto it = paths_.find(node);
  return Generalized(it == paths_.end() ? "a file without a name" : it->second,
                     checkpoint);
}

MissingSync CauseFinder::Describe(NodeId node, const Case& bad) const {
  MissingSync missing{LabelOf(node, bad.finding.checkpoint),
                      directories_.contains(node)};
  missing.comes_later = std::any_of(
      record_.changes.begin() + static_cast<ptrdiff_t>(bad.crash.prefix),
      record_.changes.end(), [&](const DiskChange& change) {
        return change.kind == Kind::kSync &&
               (change.node == node || change.node == kNoNode);
      });
  return missing;
}

Result<CrashRisk*> CauseFinder::FindKnown(const Nodes& missing,
                                          const Case& bad) {
  for (auto& [key, risk] : risks_) {
    const auto& [problem, labels] = key;
    if (problem != bad.finding.problem) continue;
    Nodes known;
    for (const NodeId node : missing) {
      if (labels.contains(LabelOf(node, bad.finding.checkpoint))) {
        known.insert(node);
      }
    }
    if (known.empty()) continue;
    HF_ASSIGN_OR_RETURN(bool explains, IsRepairedBy(known, bad));
    // A known cause explains the state only if all of its syncs are needed.
    for (const NodeId node : known) {
      if (!explains || known.size() == 1) break;
      Nodes fewer = known;
      fewer.erase(node);
      HF_ASSIGN_OR_RETURN(const bool is_repaired, IsRepairedBy(fewer, bad));
      explains = !is_repaired;
    }
    if (explains) return &risk;
  }
  return nullptr;
}

Status CauseFinder::Add(const CrashState& crash, const DiskModel& model,
                        const CrashFinding& finding) {
  const Case bad{crash, model, finding};
  Nodes missing;
  for (size_t i = 0; i < model.pending_count(); ++i) {
    for (const NodeId node : model.MissingSyncs(i)) missing.insert(node);
  }
  const auto known = FindKnown(missing, bad);
  if (!known.ok()) return known.status();
  if (*known != nullptr) {
    ++(*known)->state_count;
    return Status();
  }
  const auto needed = Search(missing, bad);
  if (!needed.ok()) return needed.status();
  std::set<std::string> labels;
  CrashRisk fresh{.problem = finding.problem};
  for (const NodeId node : needed->value_or(Nodes())) {
    MissingSync sync = Describe(node, bad);
    if (labels.insert(sync.path).second) fresh.missing.push_back(sync);
  }
  fresh.checkpoint = finding.checkpoint;
  fresh.detail = finding.detail;
  fresh.moment = MomentText(record_, crash.prefix, paths_);
  fresh.loss = LossName(crash.loss);
  const auto it =
      risks_.try_emplace({finding.problem, labels}, std::move(fresh)).first;
  ++it->second.state_count;
  return Status();
}

// Removes each sync that is a cause by itself from the causes that have several
// syncs.
void CauseFinder::Simplify() {
  std::set<std::pair<CrashProblem, std::string>> single;
  for (const auto& [key, risk] : risks_) {
    if (key.second.size() == 1) single.insert({key.first, *key.second.begin()});
  }
  std::map<Key, CrashRisk> simpler;
  for (auto& [key, risk] : risks_) {
    auto labels = key.second;
    if (labels.size() > 1) {
      std::erase_if(labels, [&](const std::string& label) {
        return single.contains({key.first, label});
      });
      if (labels.empty()) labels = {*key.second.begin()};
    }
    std::erase_if(risk.missing, [&](const MissingSync& sync) {
      return !labels.contains(sync.path);
    });
    const uint64_t count = risk.state_count;
    const auto [it, is_new] =
        simpler.try_emplace({key.first, labels}, std::move(risk));
    if (!is_new) it->second.state_count += count;
  }
  risks_ = std::move(simpler);
}

std::vector<CrashRisk> CauseFinder::Take() {
  Simplify();
  std::vector<CrashRisk> risks;
  for (auto& [key, risk] : risks_) risks.push_back(std::move(risk));
  std::stable_sort(risks.begin(), risks.end(),
                   [](const CrashRisk& a, const CrashRisk& b) {
                     return a.state_count > b.state_count;
                   });
  return risks;
}

}  // namespace holdfast
