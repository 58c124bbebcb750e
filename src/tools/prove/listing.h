// Which checkpoints lie below a directory, and what they hold.
//
// Thread-safety: one thread. Ownership: owns its scratch directory.
// Errors: of a checkpoint as its problem; of the scratch directory as Status.
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
  std::set<std::string> roots;    // whose steps are; "": the directory
  std::set<std::string> entries;  // files and directories in it
};
// As they are in `root` now, by what is sound there.
Places FindPlaces(const std::string& root);

// The contents of one checkpoint.
struct Content {
  std::string digest;   // of all leaves; empty: it cannot be loaded
  std::string problem;  // why

  bool operator==(const Content&) const = default;
};
// By path below the directory; "." is itself.
using Listing = std::map<std::string, Content>;
// All committed steps, and all other existing ones.
Listing ListCheckpoints(const std::string& root, const Places& places);

// The same for states of a disk, each of which is looked at once.
class StateLister {
 public:
  Result<Listing> List(const Files& files, const Places& places);
  // The state as a directory.
  Result<std::string> Show(const Files& files);
  // After somebody else may have changed it.
  void Reload() { mirror_.Reload(); }

 private:
  DiskMirror mirror_;
  std::map<Fingerprint, Listing> listings_;
};

}  // namespace holdfast
