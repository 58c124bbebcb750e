#include "crash/recorder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using Kind = DiskChange::Kind;

std::string LinkText(const std::string& target) {
  return std::string(kLinkMark) + target;
}

std::string ReadWhole(const fs::path& path) {
  if (fs::is_symlink(path)) return LinkText(fs::read_symlink(path));
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::pair<uint64_t, uint64_t> InodeOf(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

}  // namespace

Recorder::Recorder(const std::string& root) {
  struct stat info;
  if (::stat(root.c_str(), &info) != 0) return;
  NewNode(InodeOf(info));
  ScanBelow(root, kRootNode);
}

void Recorder::ScanBelow(const std::string& path, NodeId directory) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    struct stat info;
    if (::lstat(entry.path().c_str(), &info) != 0) continue;
    const std::string name = entry.path().filename();
    const NodeId node = NewNode(InodeOf(info));
    if (entry.is_directory() && !entry.is_symlink()) {
      record_.start.Apply({.kind = Kind::kMakeDirectory,
                           .node = node,
                           .parent = directory,
                           .name = name});
      ScanBelow(entry.path(), node);
      continue;
    }
    record_.start.Apply({.kind = Kind::kCreate,
                         .node = node,
                         .parent = directory,
                         .name = name,
                         .data = ReadWhole(entry.path())});
  }
}

NodeId Recorder::NewNode(const Inode& inode) {
  // The number of a file that is gone may be used again.
  nodes_[inode] = next_node_;
  return next_node_++;
}

NodeId Recorder::NodeOf(const Inode& inode) const {
  const auto it = nodes_.find(inode);
  return it == nodes_.end() ? kNoNode : it->second;
}

NodeId Recorder::NodeOfFd(int fd) const {
  struct stat info;
  return ::fstat(fd, &info) == 0 ? NodeOf(InodeOf(info)) : kNoNode;
}

Recorder::Place Recorder::Find(int directory, const char* path) const {
  Place place;
  if (path == nullptr) return place;
  std::string text = path;
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  const size_t slash = text.rfind('/');
  const std::string parent =
      slash == std::string::npos ? "." : text.substr(0, slash + 1);
  place.name = slash == std::string::npos ? text : text.substr(slash + 1);
  struct stat info;
  if (::fstatat(directory, parent.c_str(), &info, 0) != 0) return place;
  place.parent = NodeOf(InodeOf(info));
  if (::fstatat(directory, text.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    place.node = NodeOf(InodeOf(info));
  }
  return place;
}

long Recorder::Run(const LibcCall& call, const std::function<long()>& make) {
  if (!IsChange(call.kind)) return make();
  std::lock_guard lock(mutex_);
  const Place from = Find(call.directory, call.path);
  const Place to = Find(call.to_directory, call.to);
  const long result = make();
  if (result >= 0) Note(call, from, to, result);
  return result;
}

void Recorder::Note(const LibcCall& call, const Place& from, const Place& to,
                    long result) {
  switch (call.kind) {
    case CallKind::kCreate:
      return NoteCreate(call, from, static_cast<int>(result));
    case CallKind::kWrite:
      return NoteWrite(call, static_cast<size_t>(result));
    case CallKind::kResize:
    case CallKind::kSync: {
      const NodeId node = NodeOfFd(call.fd);
      if (node == kNoNode) return;
      DiskChange change{.kind = Kind::kSync, .node = node};
      if (call.kind == CallKind::kResize) {
        change.kind = Kind::kResize;
        change.offset = static_cast<uint64_t>(call.offset);
      }
      record_.changes.push_back(std::move(change));
      return;
    }
    case CallKind::kSymlink:
      return NoteSymlink(call, from);
    default:
      return NoteNames(call, from, to);
  }
}

void Recorder::NoteNames(const LibcCall& call, const Place& from,
                         const Place& to) {
  DiskChange change{.node = from.node,
                    .parent = from.parent,
                    .name = from.name,
                    .to_parent = to.parent,
                    .to_name = to.name,
                    .other = to.node};
  switch (call.kind) {
    case CallKind::kMakeDirectory: {
      struct stat info;
      ::fstatat(call.directory, call.path, &info, AT_SYMLINK_NOFOLLOW);
      change.kind = Kind::kMakeDirectory;
      if (from.parent != kNoNode) change.node = NewNode(InodeOf(info));
      break;
    }
    case CallKind::kRename:
      change.kind = Kind::kMove;
      break;
    case CallKind::kExchange:
      change.kind = Kind::kExchange;
      break;
    case CallKind::kLink:
      change.kind = Kind::kLink;
      break;
    case CallKind::kUnlink:
      change.kind = Kind::kRemove;
      break;
    default:
      return;  // modes
  }
  if (from.parent != kNoNode) record_.changes.push_back(std::move(change));
}

void Recorder::NoteCreate(const LibcCall& call, const Place& place, int fd) {
  if (place.parent == kNoNode) return;
  if (place.node == kNoNode) {
    struct stat info;
    if (::fstat(fd, &info) != 0) return;
    record_.changes.push_back({.kind = Kind::kCreate,
                               .node = NewNode(InodeOf(info)),
                               .parent = place.parent,
                               .name = place.name});
  } else if (call.flags & O_TRUNC) {
    record_.changes.push_back({.kind = Kind::kResize, .node = place.node});
  }
}

// Where a link leads to is as durable as its name.
void Recorder::NoteSymlink(const LibcCall& call, const Place& place) {
  struct stat info;
  if (place.parent == kNoNode || ::lstat(call.path, &info) != 0) return;
  record_.changes.push_back({.kind = Kind::kCreate,
                             .node = NewNode(InodeOf(info)),
                             .parent = place.parent,
                             .name = place.name,
                             .data = LinkText(call.to)});
}

void Recorder::NoteWrite(const LibcCall& call, size_t byte_count) {
  const NodeId node = NodeOfFd(call.fd);
  if (node == kNoNode) return;
  const uint64_t offset =
      call.offset >= 0
          ? static_cast<uint64_t>(call.offset)
          : static_cast<uint64_t>(::lseek(call.fd, 0, SEEK_CUR)) - byte_count;
  std::string data;
  for (const iovec& piece : call.pieces) {
    data.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  }
  data.resize(byte_count);
  record_.changes.push_back({.kind = Kind::kWrite,
                             .node = node,
                             .offset = offset,
                             .data = std::move(data)});
}

Files ReadFiles(const std::string& path) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const std::string name = entry.path().lexically_relative(path);
    files[name] =
        entry.is_directory() && !entry.is_symlink()
            ? nullptr
            : std::make_shared<const std::string>(ReadWhole(entry.path()));
  }
  return files;
}

}  // namespace holdfast
