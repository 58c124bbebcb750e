#include "tools/prove/saved.h"

#include <algorithm>
#include <map>
#include <set>

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

Listing Sound(const Listing& listing) {
  Listing sound;
  for (const auto& [name, content] : listing) {
    if (content.problem.empty()) sound[name] = content;
  }
  return sound;
}

// A checkpoint that appeared or changed after `prefix` changes. `begun` is the
// number of changes before its file or directory was created.
struct Appearance {
  size_t prefix;
  size_t begun;
};

std::vector<Appearance> Appearances(const DiskRecord& record,
                                    const std::vector<Listing>& listed) {
  std::vector<Appearance> appearances;
  std::map<NodeId, size_t> made;
  DiskState state = record.start;
  for (size_t i = 0; i < record.changes.size(); ++i) {
    const DiskChange& change = record.changes[i];
    state.Apply(change);
    if (change.kind == Kind::kCreate || change.kind == Kind::kMakeDirectory) {
      made[change.node] = i;
    }
    if (listed[i + 1] == listed[i]) continue;
    std::map<std::string, NodeId> nodes;
    for (const auto& [node, path] : state.Paths()) nodes[path] = node;
    for (const auto& [name, content] : Sound(listed[i + 1])) {
      const auto before = listed[i].find(name);
      if (before != listed[i].end() && before->second == content) continue;
      const auto it = made.find(nodes[name]);
      if (it != made.end()) appearances.push_back({i + 1, it->second});
    }
  }
  return appearances;
}

}  // namespace

std::vector<SavePoint> SavePoints(const DiskRecord& record,
                                  const std::vector<TraceMark>& marks,
                                  const std::vector<Listing>& listed) {
  std::set<size_t> prefixes = {0, record.changes.size()};
  for (const TraceMark& mark : marks) prefixes.insert(mark.change_count);
  const std::vector<Appearance> appearances = Appearances(record, listed);
  for (const Appearance& next : appearances) {
    const bool has_earlier = std::any_of(
        appearances.begin(), appearances.end(),
        [&](const Appearance& other) { return other.prefix <= next.begun; });
    if (has_earlier) prefixes.insert(next.begun);
  }
  std::vector<SavePoint> points;
  for (const size_t prefix : prefixes) {
    points.push_back({prefix, Sound(listed[prefix])});
  }
  return points;
}

std::vector<CrashFinding> JudgeListing(const Listing& found, size_t prefix,
                                       const std::vector<SavePoint>& points,
                                       const std::vector<Listing>& listed) {
  const auto next = std::upper_bound(
      points.begin(), points.end(), prefix,
      [](size_t at, const SavePoint& point) { return at < point.prefix; });
  const SavePoint& before = *(next - 1);
  const SavePoint& after = next == points.end() ? before : *next;
  std::vector<CrashFinding> findings;
  for (const auto& [name, content] : before.saved) {
    if (!found.contains(name) && after.saved.contains(name)) {
      findings.push_back(
          {CrashProblem::kLost, name, "it was saved, and is not listed"});
    }
  }
  for (const auto& [name, content] : found) {
    if (!content.problem.empty()) {
      findings.push_back({CrashProblem::kDamaged, name, content.problem});
      continue;
    }
    const auto is_in = [&](const Listing& listing) {
      const auto it = listing.find(name);
      return it != listing.end() && it->second == content;
    };
    // A checkpoint that appears and disappears between two points is only in
    // the listings between them.
    const bool is_known =
        before.saved.contains(name) || after.saved.contains(name)
            ? is_in(before.saved) || is_in(after.saved)
            : std::any_of(
                  listed.begin() + static_cast<ptrdiff_t>(before.prefix),
                  listed.begin() + static_cast<ptrdiff_t>(after.prefix) + 1,
                  is_in);
    if (!is_known) {
      findings.push_back(
          {CrashProblem::kWrong, name, "it loads, and is not what was saved"});
    }
  }
  return findings;
}

}  // namespace holdfast
