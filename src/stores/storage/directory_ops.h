// Operations on whole directories that committing a checkpoint needs beyond
// Store, which knows no rename. Paths are ordinary file system paths.
//
// Thread-safety: any thread. Ownership: none. Units: none.
// Errors: errno_status.h, with the path; the codes named below are exact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast::local {

enum class PathKind : uint8_t { kMissing, kFile, kDirectory, kSymlink, kOther };

// The kind of `path` itself: a symbolic link is not followed.
Result<PathKind> GetPathKind(const std::string& path);

// True when the path leads to a directory, or to anything, through symbolic
// links. A missing path, a circle of links, and a path that may not be looked
// at lead nowhere; a device or a kernel that cannot tell is an error.
Result<bool> LeadsToDirectory(const std::string& path);
Result<bool> LeadsToAnything(const std::string& path);

// Tells the directory a path leads to from any other that gets its name; ""
// for what is not there, or cannot be looked at.
std::string DirectoryId(const std::string& path);

// Makes one directory, 0777 less the umask. AlreadyExists when anything is
// there; NotFound when the parent is missing. Not durable until the parent is
// synced.
Status CreateDirectoryNew(const std::string& path);

// Gives the directory exactly these permission bits, whatever the umask. A
// symbolic link is not followed. Durable when the directory is synced.
Status SetPermissions(const std::string& path, uint32_t mode);

// Makes the names in the directory durable. Ok where the file system knows no
// such sync.
Status SyncDirectory(const std::string& path);

// Makes the bytes of a regular file durable. FailedPrecondition for anything
// else.
Status SyncFile(const std::string& path);

// Renames the directory `source` to `target` in one step and makes that
// durable. AlreadyExists when anything is at `target`; FailedPrecondition when
// `source` is not a directory. If it fails after the rename ("sync directory"),
// the target is visible but may not outlast a power loss.
// Unimplemented, saying so, on file systems that rename no directories. Where
// renames know no flags, an empty directory that somebody makes at `target` at
// the same moment is replaced (stores/storage/rename_call.h).
Status PublishDirectory(const std::string& source, const std::string& target);

// Exchanges the names of two directories in one step and makes that durable:
// at every moment both names lead to one of them. Unimplemented where the file
// system cannot (stores/storage/replace_directory.h can everywhere).
Status ExchangeDirectories(const std::string& a, const std::string& b);

// Removes the directory and all below it. Symbolic links are removed, never
// followed. NotFound when missing; FailedPrecondition when `path` is anything
// but a directory, or another file system is mounted below; InvalidArgument for
// "", "/" and paths that end in "." or "..".
Status RemoveTree(const std::string& path);
// The same of a directory that is open as `fd`, and at `path`: what is in it is
// found by the descriptor, whatever becomes of the name.
Status RemoveOpenTree(int fd, const std::string& path);

// Names of all entries, hidden ones too, in byte order; but nobody's
// (stores/storage/nobodys_files.h).
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// All regular files and directories below a directory, relative to it. Symbolic
// links and everything else are left out, and never followed.
struct DirectoryTree {
  std::vector<std::string> files;        // in byte order within a directory
  std::vector<std::string> directories;  // deepest first, without the root
};
Result<DirectoryTree> ListTree(const std::string& path);

}  // namespace holdfast::local
