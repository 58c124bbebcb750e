#include "tools/virtual/file_tree.h"

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

std::string Joined(std::string_view directory, std::string_view name) {
  std::string joined(directory);
  if (!joined.empty()) joined += '/';
  return joined.append(name);
}

}  // namespace

bool StaysInside(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) return false;
  for (;;) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    if (part.size() == name.size()) return true;
    name.remove_prefix(part.size() + 1);
  }
}

Status NoSuchFile(std::string_view name) {
  return NotFoundError("there is no file \"" + std::string(name) + "\"");
}

void NameIndex::AddDirectory(const std::string& name) {
  if (name.empty() || !directories_.insert(name).second) return;
  const size_t slash = name.rfind('/');
  const std::string parent =
      slash == std::string::npos ? "" : name.substr(0, slash);
  AddDirectory(parent);
  children_[parent].insert(slash == std::string::npos ? name
                                                      : name.substr(slash + 1));
}

Status NameIndex::AddFile(const std::string& name, uint64_t byte_count,
                          size_t number) {
  if (!StaysInside(name)) {
    return InvalidArgumentError("\"" + name + "\" is not a path inside");
  }
  if (directories_.contains(name) ||
      !files_.emplace(name, File{byte_count, number}).second) {
    return AlreadyExistsError("two files are named \"" + name + "\"");
  }
  const size_t slash = name.rfind('/');
  const std::string parent =
      slash == std::string::npos ? "" : name.substr(0, slash);
  AddDirectory(parent);
  children_[parent].insert(slash == std::string::npos ? name
                                                      : name.substr(slash + 1));
  return Status();
}

bool NameIndex::HasDirectory(std::string_view name) const {
  return directories_.contains(name);
}

Result<VirtualEntry> NameIndex::Stat(std::string_view name) const {
  if (HasDirectory(name)) return VirtualEntry{std::string(name), true, 0};
  const auto found = files_.find(name);
  if (found == files_.end()) return NoSuchFile(name);
  return VirtualEntry{std::string(name), false, found->second.byte_count};
}

Result<std::vector<VirtualEntry>> NameIndex::List(
    std::string_view directory) const {
  if (!HasDirectory(directory)) return NoSuchFile(directory);
  std::vector<VirtualEntry> entries;
  const auto children = children_.find(directory);
  if (children == children_.end()) return entries;
  for (const std::string& child : children->second) {
    HF_ASSIGN_OR_RETURN(VirtualEntry entry, Stat(Joined(directory, child)));
    entry.name = child;
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<size_t> NameIndex::NumberOf(std::string_view name) const {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second.number;
  if (!HasDirectory(name)) return NoSuchFile(name);
  return InvalidArgumentError("\"" + std::string(name) + "\" is a directory");
}

}  // namespace holdfast
