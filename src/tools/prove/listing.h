// Lists the checkpoints below a directory, with digests of their contents.
//
// Thread-safety: one thread. Ownership: owns its scratch directory.
// Errors: those of the scratch directory. An error of a checkpoint becomes
// Content::problem.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "holdfast/status.h"
#include "tools/powerloss/disk_mirror.h"

namespace holdfast {

// Where a program keeps its checkpoints.
struct Places {
  bool is_itself = false;         // the directory is the checkpoint
  std::set<std::string> roots;    // that hold steps; "": the directory
  std::set<std::string> entries;  // files and directories in the directory
};
// Finds the places in `root` as it is now, from the checkpoints that are
// intact.
Places FindPlaces(const std::string& root);

// The contents of one checkpoint.
struct Content {
  std::string digest;   // of all leaves; empty if it cannot be loaded
  std::string problem;  // why it cannot be loaded

  bool operator==(const Content&) const = default;
};
// By path below the directory; "." is the directory itself.
using Listing = std::map<std::string, Content>;
// Lists all committed steps, and all other checkpoints that exist.
Listing ListCheckpoints(const std::string& root, const Places& places);

// Lists states of a disk; each state is looked at only once.
class StateLister {
 public:
  Result<Listing> List(const Files& files, const Places& places);
  // Writes the state into a directory, whose path it returns.
  Result<std::string> Show(const Files& files);
  // Reads the directory again. Call it after something else may have changed
  // the directory.
  void Reload() { mirror_.Reload(); }

 private:
  DiskMirror mirror_;
  std::map<Fingerprint, Listing> listings_;
};

}  // namespace holdfast
