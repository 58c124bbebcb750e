// ChangeRecorder: turns calls that touch files into changes of a disk, for
// those below one directory.
//
// Modes, owners and times are not recorded. A file that comes in from outside
// is a file that is created and written, and of which nothing is safe.
// Thread-safety: one thread at a time; no other call may change the same files
// between Look and Note. Ownership: owns the record.
// Errors: none; what cannot be looked at leaves no record.
#pragma once

#include <sys/stat.h>

#include <map>
#include <string>
#include <utility>

#include "tools/powerloss/crash_states.h"
#include "tools/powerloss/file_call.h"

namespace holdfast {

class ChangeRecorder {
 public:
  // The files below `root`, which exists, are the record's start.
  explicit ChangeRecorder(const std::string& root);

  struct Place {
    NodeId parent = kNoNode;
    std::string name;
    NodeId node = kNoNode;  // what is there
  };
  // The meaning of a call's names before it is made.
  struct Before {
    Place from;
    Place to;
  };
  Before Look(const FileCall& call) const;
  // After it was made and has returned `result`, other than an error. For
  // kCreate the result is a descriptor of this process.
  void Note(const FileCall& call, const Before& before, long result);

  void Add(DiskChange change) { record_.changes.push_back(std::move(change)); }
  // kNoNode for what does not lie below the root.
  NodeId NodeOfFd(int fd) const;
  NodeId NodeOf(const struct stat& info) const;
  // A node that has no name yet.
  NodeId NewNode(const struct stat& info);
  const DiskRecord& record() const { return record_; }

 private:
  void ScanBelow(const std::string& path, NodeId directory);
  Place Find(int directory, const char* path, int flags) const;
  void NoteNames(const FileCall& call, const Place& from, const Place& to);
  void NoteCreate(const FileCall& call, const Place& place, int fd);
  void NoteSymlink(const FileCall& call, const Place& place);
  void NoteArrival(const FileCall& call, const Place& to);
  void NoteWrite(const FileCall& call, size_t byte_count);

  std::map<std::pair<uint64_t, uint64_t>, NodeId> nodes_;  // device, number
  NodeId next_node_ = kRootNode;
  DiskRecord record_;
};

}  // namespace holdfast
