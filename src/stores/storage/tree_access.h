// TreeAccess: who may read and write the files of a checkpoint on disk, so that
// neither a copy of a checkpoint nor one that replaces it is accessible to more
// users.
//
// A new checkpoint has the permissions that the umask gives. One that replaces
// another keeps the permissions of the old one; those of a copy are bounded by
// those of its sources. A checkpoint that will have fewer permissions than the
// umask gives is written in a directory that only its owner may enter.
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

// The permission bits that all directories share, and all files. Linked files,
// which belong to others, are ignored.
struct TreeAccess {
  uint32_t directory_bits = 0777;
  uint32_t file_bits = 0777;
  bool has_files = false;            // if false, nothing is known of files
  uint32_t top_bits = 0777;          // of the directory at the path
  std::optional<uint32_t> group_id;  // of the path
};

// The access of a file or a directory; nullopt for a missing one, and for a
// URL.
std::optional<TreeAccess> AccessOfTree(const std::string& path);

// How a new file, or a new directory and everything below it, gets its
// permissions.
class AccessRule {
 public:
  // `replaced`: the path that it replaces, if anything exists there; "" for
  // none. `sources`: the paths that it copies, completely or in part.
  static AccessRule Of(const std::string& replaced,
                       const std::vector<std::string>& sources);

  void BoundBy(const std::vector<std::string>& sources);

  // Whether only the umask decides.
  bool is_plain() const { return !kept_ && !bound_; }
  // Whether the rule gives others less access than the new directory at `path`
  // has.
  Result<bool> IsNarrower(const std::string& path) const;
  // For a directory that is being written: if the rule is narrower, allows only
  // the owner to enter it.
  Status CloseWhileItGrows(const std::string& path) const;
  // Applies the rule to `path` and everything below it. Files with several
  // names are left alone, since they also belong elsewhere. With `sync` the
  // result is durable on return, except for the bits of `path` itself.
  Status Apply(const std::string& path, bool sync) const;

 private:
  uint32_t BitsOf(uint32_t bits, bool is_directory, bool is_top) const;
  Status ApplyTo(const std::string& path, bool is_top, bool sync) const;

  std::optional<TreeAccess> kept_;   // of what is replaced
  std::optional<TreeAccess> bound_;  // of the sources
};

// The permission bits of what a path on disk leads to; 0777 when nothing exists
// there.
uint32_t BitsAt(const std::string& path);

// Gives the new file `fd` the permissions of the file that it replaces. Returns
// 0 or an errno.
int KeepAccessOf(const struct stat& replaced, int fd);

}  // namespace holdfast
