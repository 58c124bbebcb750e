// TreeAccess: who may read and write the files of a checkpoint on disk. It
// keeps copies of a checkpoint, and checkpoints that replace another, from
// being accessible to more users.
//
// A new checkpoint has the permissions that the umask gives. A checkpoint that
// replaces another keeps the old one's permissions, and a copy gets at most its
// sources' permissions. A checkpoint that will have fewer permissions than the
// umask gives is written in a directory that only its owner may enter.
//
// Thread-safety: no state but the file system's. Ownership: a value.
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

// The permission bits that all directories have in common, and those that all
// files have in common. Linked files, which belong to others, are ignored.
struct TreeAccess {
  uint32_t directory_bits = 0777;
  uint32_t file_bits = 0777;
  bool has_files = false;            // if false, file_bits means nothing
  uint32_t top_bits = 0777;          // the bits of the path itself
  std::optional<uint32_t> group_id;  // the group of the path
};

// Returns the access of a file or a directory; nullopt for a missing path and
// for a URL.
std::optional<TreeAccess> AccessOfTree(const std::string& path);

// How a new file, or a new directory and everything below it, gets its
// permissions.
class AccessRule {
 public:
  // Makes the rule for something that replaces `replaced` ("" if nothing) and
  // copies `sources`, completely or in part.
  static AccessRule Of(const std::string& replaced,
                       const std::vector<std::string>& sources);

  void BoundBy(const std::vector<std::string>& sources);

  // Whether only the umask determines the permissions.
  bool is_plain() const { return !kept_ && !bound_; }
  // Returns whether the rule gives others less access than the new directory at
  // `path` gives.
  Result<bool> IsNarrower(const std::string& path) const;
  // If the rule is narrower, allows only the owner to enter the directory at
  // `path`, which is being written.
  Status CloseWhileItGrows(const std::string& path) const;
  // Applies the rule to `path` and everything below it. Files with several
  // names are left alone, since they also belong elsewhere. With `sync` the
  // result is durable on return, except for the bits of `path` itself.
  Status Apply(const std::string& path, bool sync) const;

 private:
  uint32_t BitsOf(uint32_t bits, bool is_directory, bool is_top) const;
  Status ApplyTo(const std::string& path, bool is_top, bool sync) const;

  std::optional<TreeAccess> kept_;   // from what is replaced
  std::optional<TreeAccess> bound_;  // from the sources
};

// Returns the permission bits of what a path on disk leads to; 0777 if nothing
// exists there.
uint32_t BitsAt(const std::string& path);

// Gives the new file `fd` the permissions of the file that it replaces. Returns
// 0 or an errno.
int KeepAccessOf(const struct stat& replaced, int fd);

}  // namespace holdfast
