// Operations on directories that committing a checkpoint needs beyond Store,
// which has no rename. Paths are ordinary file system paths.
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
// links. A missing path, a loop of links, and a path without permission to look
// at it lead nowhere; a failing device or kernel is an error.
Result<bool> LeadsToDirectory(const std::string& path);
Result<bool> LeadsToAnything(const std::string& path);

// Identifies the directory that a path leads to, so that another directory of
// the same name has another id; "" when it is missing or cannot be examined.
std::string DirectoryId(const std::string& path);

// Makes one directory, 0777 less the umask. AlreadyExists when anything exists
// there; NotFound when the parent is missing. Not durable until the parent is
// synced.
Status CreateDirectoryNew(const std::string& path);

// Sets exactly these permission bits on the directory, whatever the umask. A
// symbolic link is not followed. Durable when the directory is synced.
Status SetPermissions(const std::string& path, uint32_t mode);

// Makes the names in the directory durable. Ok where the file system does not
// support such a sync.
Status SyncDirectory(const std::string& path);

// Makes the bytes of a regular file durable. FailedPrecondition for other
// kinds.
Status SyncFile(const std::string& path);

// Renames the directory `source` to `target` in one step and makes that
// durable. AlreadyExists when anything is at `target`; FailedPrecondition when
// `source` is not a directory. If it fails after the rename ("sync directory"),
// the target is visible but may not outlast a power loss.
// Unimplemented, with a message saying so, on file systems that cannot rename
// directories. Where renames have no flags, an empty directory that is created
// at `target` at the same moment is replaced (stores/storage/rename_call.h).
Status PublishDirectory(const std::string& source, const std::string& target);

// Exchanges the names of two directories in one step and makes that durable: at
// every moment each name leads to one of the two. Unimplemented where the file
// system cannot do this (stores/storage/replace_directory.h works everywhere).
Status ExchangeDirectories(const std::string& a, const std::string& b);

// Removes the directory and everything below it. Symbolic links are removed,
// never followed. NotFound when missing; FailedPrecondition when `path` is not
// a directory, or another file system is mounted below it; InvalidArgument for
// "", "/" and paths that end in "." or "..".
Status RemoveTree(const std::string& path);
// Like RemoveTree, for a directory at `path` that is open as `fd`: its contents
// are found through the descriptor, whatever becomes of the name.
Status RemoveOpenTree(int fd, const std::string& path);

// Names of all entries, including hidden ones, in byte order; but not those of
// stores/storage/nobodys_files.h.
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// All regular files and directories below a directory, relative to it. Symbolic
// links and all other entries are left out, and never followed.
struct DirectoryTree {
  std::vector<std::string> files;        // in byte order within a directory
  std::vector<std::string> directories;  // deepest first, without the root
};
Result<DirectoryTree> ListTree(const std::string& path);

}  // namespace holdfast::local
