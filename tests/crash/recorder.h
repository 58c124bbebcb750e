// Recorder: a hook that writes down every change below a directory, in the
// order in which the system made them.
//
// Changes are made one at a time while it is in force, so that the order is
// known although many threads make them. Modes, owners and times are not
// recorded: no promise of ours rests on them.
// Thread-safety: Run from any thread. Ownership: owns the record.
// Errors: none; calls that fail leave no record.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "crash/crash_states.h"
#include "crash/libc_calls.h"

namespace holdfast {

class Recorder : public CallHook {
 public:
  // What is below `root`, which exists, is the record's start.
  explicit Recorder(const std::string& root);

  long Run(const LibcCall& call, const std::function<long()>& make) override;
  // What has been recorded. REQUIRES: no call is being made.
  const DiskRecord& record() const { return record_; }

 private:
  using Inode = std::pair<uint64_t, uint64_t>;  // device, number
  struct Place {
    NodeId parent = kNoNode;
    std::string name;
    NodeId node = kNoNode;  // what is there
  };

  void ScanBelow(const std::string& path, NodeId directory);
  NodeId NodeOf(const Inode& inode) const;
  NodeId NodeOfFd(int fd) const;
  NodeId NewNode(const Inode& inode);
  Place Find(int directory, const char* path) const;
  void Note(const LibcCall& call, const Place& from, const Place& to,
            long result);
  void NoteNames(const LibcCall& call, const Place& from, const Place& to);
  void NoteCreate(const LibcCall& call, const Place& place, int fd);
  void NoteSymlink(const LibcCall& call, const Place& place);
  void NoteWrite(const LibcCall& call, size_t byte_count);

  std::mutex mutex_;
  std::map<Inode, NodeId> nodes_;
  NodeId next_node_ = kRootNode;
  DiskRecord record_;
};

// All files and directories below `path`, as they really are.
Files ReadFiles(const std::string& path);

}  // namespace holdfast
