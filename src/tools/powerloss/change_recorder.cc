#include "tools/powerloss/change_recorder.h"

#include <unistd.h>

#include <filesystem>

#include "tools/powerloss/disk_mirror.h"

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

namespace fs = std::filesystem;

std::pair<uint64_t, uint64_t> InodeOf(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

}  // namespace

ChangeRecorder::ChangeRecorder(const std::string& root) {
  struct stat info;
  if (::stat(root.c_str(), &info) != 0) return;
  NewNode(info);
  ScanBelow(root, kRootNode);
}

void ChangeRecorder::ScanBelow(const std::string& path, NodeId directory) {
  std::error_code ignored;
  for (fs::directory_iterator it(path, ignored), end; it != end;
       it.increment(ignored)) {
    struct stat info;
    if (::lstat(it->path().c_str(), &info) != 0) continue;
    DiskChange change{.kind = Kind::kMakeDirectory,
                      .node = NewNode(info),
                      .parent = directory,
                      .name = it->path().filename()};
    const NodeId node = change.node;
    if (!S_ISDIR(info.st_mode)) {
      change.kind = Kind::kCreate;
      change.data = ReadWhole(it->path());
    }
    record_.start.Apply(change);
    if (S_ISDIR(info.st_mode)) ScanBelow(it->path(), node);
  }
}

NodeId ChangeRecorder::NewNode(const struct stat& info) {
  // Replaces an earlier node, because a removed file's inode number may be
  // reused.
  nodes_[InodeOf(info)] = next_node_;
  return next_node_++;
}

NodeId ChangeRecorder::NodeOf(const struct stat& info) const {
  const auto it = nodes_.find(InodeOf(info));
  return it == nodes_.end() ? kNoNode : it->second;
}

NodeId ChangeRecorder::NodeOfFd(int fd) const {
  struct stat info;
  return ::fstat(fd, &info) == 0 ? NodeOf(info) : kNoNode;
}

ChangeRecorder::Place ChangeRecorder::Find(int directory, const char* path,
                                           int flags) const {
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
  place.parent = NodeOf(info);
  const int follow = flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW;
  if (::fstatat(directory, text.c_str(), &info, follow) == 0) {
    place.node = NodeOf(info);
  }
  return place;
}

ChangeRecorder::Before ChangeRecorder::Look(const FileCall& call) const {
  return {Find(call.directory, call.path,
               call.kind == FileCallKind::kLink ? call.flags : 0),
          call.kind == FileCallKind::kSymlink
              ? Place()
              : Find(call.to_directory, call.to, 0)};
}

void ChangeRecorder::Note(const FileCall& call, const Before& before,
                          long result) {
  switch (call.kind) {
    case FileCallKind::kCreate:
      return NoteCreate(call, before.from, static_cast<int>(result));
    case FileCallKind::kWrite:
      return NoteWrite(call, static_cast<size_t>(result));
    case FileCallKind::kResize:
    case FileCallKind::kSync: {
      const NodeId node = NodeOfFd(call.fd);
      if (node == kNoNode) return;
      DiskChange change{.kind = Kind::kSync, .node = node};
      if (call.kind == FileCallKind::kResize) {
        change.kind = Kind::kResize;
        change.offset = static_cast<uint64_t>(call.offset);
      }
      return Add(std::move(change));
    }
    case FileCallKind::kSymlink:
      return NoteSymlink(call, before.from);
    default:
      return NoteNames(call, before.from, before.to);
  }
}

void ChangeRecorder::NoteNames(const FileCall& call, const Place& from,
                               const Place& to) {
  DiskChange change{.node = from.node,
                    .parent = from.parent,
                    .name = from.name,
                    .to_parent = to.parent,
                    .to_name = to.name,
                    .other = to.node};
  switch (call.kind) {
    case FileCallKind::kMakeDirectory: {
      struct stat info;
      if (from.parent == kNoNode ||
          ::fstatat(call.directory, call.path, &info, AT_SYMLINK_NOFOLLOW)) {
        return;
      }
      change.kind = Kind::kMakeDirectory;
      change.node = NewNode(info);
      break;
    }
    case FileCallKind::kRename:
    case FileCallKind::kLink:
      if (from.node == kNoNode) return NoteArrival(call, to);
      change.kind =
          call.kind == FileCallKind::kLink ? Kind::kLink : Kind::kMove;
      if (to.parent == kNoNode) change.kind = Kind::kRemove;  // it leaves
      if (call.kind == FileCallKind::kLink && to.parent == kNoNode) return;
      break;
    case FileCallKind::kExchange:
      change.kind = Kind::kExchange;
      break;
    case FileCallKind::kUnlink:
      change.kind = Kind::kRemove;
      break;
    default:
      return;  // a change of mode
  }
  if (from.node != kNoNode || change.kind == Kind::kMakeDirectory) {
    Add(std::move(change));
  }
}

// Records a file from elsewhere that gets a name below the root.
void ChangeRecorder::NoteArrival(const FileCall& call, const Place& to) {
  struct stat info;
  if (to.parent == kNoNode ||
      ::fstatat(call.to_directory, call.to, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(info.st_mode)) {
    return;
  }
  const NodeId node = NewNode(info);
  Add({.kind = Kind::kCreate,
       .node = node,
       .parent = to.parent,
       .name = to.name});
  const int fd = ::openat(call.to_directory, call.to, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  std::string data(static_cast<size_t>(info.st_size), '\0');
  const ssize_t got = ::pread(fd, data.data(), data.size(), 0);
  ::close(fd);
  data.resize(got < 0 ? 0 : static_cast<size_t>(got));
  Add({.kind = Kind::kWrite,
       .node = node,
       .offset = 0,
       .data = std::move(data)});
}

void ChangeRecorder::NoteCreate(const FileCall& call, const Place& place,
                                int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return;
  // A new name is a new node, even if a removed file's inode number was reused.
  const NodeId node =
      place.node == kNoNode && place.parent != kNoNode ? kNoNode : NodeOf(info);
  if (node != kNoNode) {
    if (call.flags & O_TRUNC) Add({.kind = Kind::kResize, .node = node});
  } else if (place.parent != kNoNode) {
    Add({.kind = Kind::kCreate,
         .node = NewNode(info),
         .parent = place.parent,
         .name = place.name});
  }
}

// Records a symbolic link. Its target is as durable as its name.
void ChangeRecorder::NoteSymlink(const FileCall& call, const Place& place) {
  struct stat info;
  if (place.parent == kNoNode ||
      ::fstatat(call.directory, call.path, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  Add({.kind = Kind::kCreate,
       .node = NewNode(info),
       .parent = place.parent,
       .name = place.name,
       .data = std::string(kLinkMark) + call.to});
}

void ChangeRecorder::NoteWrite(const FileCall& call, size_t byte_count) {
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
  Add({.kind = Kind::kWrite,
       .node = node,
       .offset = offset,
       .data = std::move(data)});
}

}  // namespace holdfast
