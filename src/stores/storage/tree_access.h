// TreeAccess: who may read and write the files of a checkpoint on disk, so that
// a copy of it, and a checkpoint that takes its place, opens it to nobody else.
//
// A checkpoint that a save makes anew has the permissions that the umask says.
// One that replaces another keeps the permissions of that; those of a copy are
// bounded by those of its sources. A checkpoint that will be narrower than the
// umask says grows in a directory that only its owner may enter.
//
// Thread-safety: pure functions of the file system. Ownership: a value.
// Units: permission bits (0777).
// Errors: those of errno_status.h.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// The bits that all directories have, and all files; what is in links is
// another's.
struct TreeAccess {
  uint32_t directory_bits = 0777;
  uint32_t file_bits = 0777;
  bool has_files = false;            // else nothing is known of files
  uint32_t top_bits = 0777;          // of the directory at the path
  std::optional<uint32_t> group_id;  // of the path
};

// The access of a file or a directory; nullopt for a missing one, and for a
// URL.
std::optional<TreeAccess> AccessOfTree(const std::string& path);

// How a new file or directory with all below it gets its permissions.
class AccessRule {
 public:
  // `replaced`: the path that it takes the place of, if anything is there;
  // "": none. `sources`: paths of what it is a copy of, or has parts of.
  static AccessRule Of(const std::string& replaced,
                       const std::vector<std::string>& sources);

  void BoundBy(const std::vector<std::string>& sources);

  // Whether only the umask decides.
  bool is_plain() const { return !kept_ && !bound_; }
  // Whether others may enter less than the new directory at `path` lets them.
  Result<bool> IsNarrower(const std::string& path) const;
  // For a directory that grows: if the rule is narrower, only the owner may
  // enter it.
  Status CloseWhileItGrows(const std::string& path) const;
  // All below `path`, and what is at it. Files with several names are left
  // alone: they are also elsewhere. `sync`: durable when it returns, but for
  // the bits of `path` itself.
  Status Apply(const std::string& path, bool sync) const;

 private:
  uint32_t BitsOf(uint32_t bits, bool is_directory, bool is_top) const;
  Status ApplyTo(const std::string& path, bool is_top, bool sync) const;

  std::optional<TreeAccess> kept_;   // of what is replaced
  std::optional<TreeAccess> bound_;  // of the sources
};

// The permission bits of what a path on disk leads to; 0777 when nothing is
// there.
uint32_t BitsAt(const std::string& path);

// Gives the new file `fd` the permissions of the one that it takes the place
// of. 0 or an errno.
int KeepAccessOf(const struct stat& replaced, int fd);

}  // namespace holdfast
