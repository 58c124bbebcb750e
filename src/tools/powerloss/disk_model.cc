#include "tools/powerloss/disk_model.h"

#include <algorithm>

namespace holdfast {

using Kind = DiskChange::Kind;

Fingerprint FingerprintOf(const Files& files, const std::string& prefix) {
  const std::hash<std::string_view> hash;
  uint64_t first = hash(prefix), second = prefix.size();
  for (auto it = files.lower_bound(prefix);
       it != files.end() && it->first.starts_with(prefix); ++it) {
    const uint64_t content = it->second ? hash(*it->second) : 1;
    first = first * 0x9E3779B97F4A7C15 + (hash(it->first) ^ content * 31);
    second = (second ^ content) * 0xBF58476D1CE4E5B9 + hash(it->first);
  }
  return {first, second};
}

void DiskState::Put(NodeId directory, const std::string& name, NodeId node) {
  // The directory may not exist yet here: its own name may be less safe than
  // the names in it.
  directories_[directory][name] = node;
}

bool DiskState::Take(NodeId directory, const std::string& name, NodeId node) {
  const auto it = directories_.find(directory);
  if (it == directories_.end()) return false;
  const auto entry = it->second.find(name);
  if (entry == it->second.end() || entry->second != node) return false;
  it->second.erase(entry);
  return true;
}

void DiskState::Write(const DiskChange& change) {
  FileBytes& bytes = files_[change.node];
  std::string text = bytes ? *bytes : "";
  if (change.kind == Kind::kResize) {
    text.resize(change.offset);
  } else {
    const uint64_t end = change.offset + change.data.size();
    if (text.size() < end) text.resize(end);
    text.replace(change.offset, change.data.size(), change.data);
  }
  bytes = std::make_shared<const std::string>(std::move(text));
}

void DiskState::Exchange(const DiskChange& change) {
  if (!Take(change.parent, change.name, change.node)) return;
  if (!Take(change.to_parent, change.to_name, change.other)) {
    return Put(change.parent, change.name, change.node);
  }
  Put(change.parent, change.name, change.other);
  Put(change.to_parent, change.to_name, change.node);
}

void DiskState::Apply(const DiskChange& change) {
  switch (change.kind) {
    case Kind::kCreate:
      // The file's bytes may have become safe before its name. If so, they
      // stay.
      files_.try_emplace(change.node,
                         std::make_shared<const std::string>(change.data));
      return Put(change.parent, change.name, change.node);
    case Kind::kMakeDirectory:
      directories_[change.node];
      return Put(change.parent, change.name, change.node);
    case Kind::kWrite:
    case Kind::kResize:
      return Write(change);
    case Kind::kMove:
      if (Take(change.parent, change.name, change.node)) {
        Put(change.to_parent, change.to_name, change.node);
      }
      return;
    case Kind::kExchange:
      return Exchange(change);
    case Kind::kLink:
      return Put(change.to_parent, change.to_name, change.node);
    case Kind::kRemove:
      Take(change.parent, change.name, change.node);
      return;
    case Kind::kSync:
      return;
  }
}

Files DiskState::List() const {
  Files files;
  VisitBelow(kRootNode, "", [&](const std::string& path, NodeId node) {
    if (directories_.contains(node)) {
      files[path] = nullptr;
      return;
    }
    // A name may survive a crash that lost the file's first write.
    const auto file = files_.find(node);
    files[path] = file != files_.end() ? file->second
                                       : std::make_shared<const std::string>();
  });
  return files;
}

std::map<NodeId, std::string> DiskState::Paths() const {
  std::map<NodeId, std::string> paths = {{kRootNode, "."}};
  VisitBelow(kRootNode, "",
             [&](const std::string& path, NodeId node) { paths[node] = path; });
  return paths;
}

void DiskState::VisitBelow(NodeId directory, const std::string& prefix,
                           const Visit& visit) const {
  for (const auto& [name, node] : directories_.at(directory)) {
    const std::string path = prefix + name;
    visit(path, node);
    if (directories_.contains(node)) VisitBelow(node, path + "/", visit);
  }
}

std::vector<NodeId> DiskModel::NodesToSync(const Pending& pending) {
  const auto& [change, parent_is_synced, to_parent_is_synced] = pending;
  if (change.is_data()) return {change.node};
  const bool is_move =
      change.kind == Kind::kMove || change.kind == Kind::kExchange;
  std::vector<NodeId> nodes;
  if (change.kind != Kind::kLink && !parent_is_synced) {
    nodes.push_back(change.parent);
  }
  if ((is_move || change.kind == Kind::kLink) && !to_parent_is_synced &&
      (nodes.empty() || change.to_parent != change.parent)) {
    nodes.push_back(change.to_parent);
  }
  return nodes;
}

void DiskModel::Step(const DiskChange& change) {
  if (change.kind != Kind::kSync) {
    pending_.push_back({change});
    return;
  }
  if (change.node == kNoNode) {
    for (const Pending& pending : pending_) safe_.Apply(pending.change);
    return pending_.clear();
  }
  std::vector<Pending> still_pending;
  for (Pending& pending : pending_) {
    const DiskChange& old = pending.change;
    pending.parent_is_synced |= old.parent == change.node;
    pending.to_parent_is_synced |= old.to_parent == change.node;
    const bool is_safe =
        old.is_data() ? old.node == change.node : NodesToSync(pending).empty();
    if (is_safe) {
      safe_.Apply(old);
    } else {
      still_pending.push_back(std::move(pending));
    }
  }
  pending_ = std::move(still_pending);
}

DiskState DiskModel::After(const Survivor& survivor) const {
  DiskState state = safe_;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (const DiskChange* left = survivor(i, pending_[i].change)) {
      state.Apply(*left);
    }
  }
  return state;
}

}  // namespace holdfast
