// ChangeRecorder: records the calls that change files below one directory, as
// changes of a modeled disk (disk_model.h).
//
// Modes, owners and times are not recorded. A file that is moved in from
// outside is recorded as a file that was created and written there and not yet
// synced.
// Thread-safety: one thread at a time; no other call may change the same files
// between Look and Note. Ownership: owns the record.
// Errors: none; files that cannot be looked at leave no record.
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
  // The record starts with the files below `root`, which must exist.
  explicit ChangeRecorder(const std::string& root);

  struct Place {
    NodeId parent = kNoNode;
    std::string name;
    NodeId node = kNoNode;  // of the entry with this name
  };
  // The nodes that a call's paths name before the call is made.
  struct Before {
    Place from;
    Place to;
  };
  Before Look(const FileCall& call) const;
  // Records a call that was made and returned `result`, which is not an error.
  // For kCreate the result is a descriptor of this process.
  void Note(const FileCall& call, const Before& before, long result);

  void Add(DiskChange change) { record_.changes.push_back(std::move(change)); }
  // Returns kNoNode for a file that is not below the root.
  NodeId NodeOfFd(int fd) const;
  NodeId NodeOf(const struct stat& info) const;
  // Makes the node of a file that does not have a name yet.
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

  std::map<std::pair<uint64_t, uint64_t>, NodeId> nodes_;  // device, inode
  NodeId next_node_ = kRootNode;
  DiskRecord record_;
};

}  // namespace holdfast
