// Operations on directories that committing a checkpoint needs beyond those of
// Store, which has no rename. Paths are ordinary file-system paths.
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

// Returns the kind of `path` itself: a symbolic link is not followed.
Result<PathKind> GetPathKind(const std::string& path);

// Return true if the path, through symbolic links, leads to a directory, or to
// anything. They return false for a missing path, a loop of links, and a path
// that this user may not examine. A failing device or kernel is an error.
Result<bool> LeadsToDirectory(const std::string& path);
Result<bool> LeadsToAnything(const std::string& path);

// Returns an id of the directory or file that a path leads to. A different one
// of the same name has a different id. "" if it is missing or cannot be
// examined.
std::string DirectoryId(const std::string& path);

// Makes one directory, with 0777 less the umask. AlreadyExists if anything
// exists there; NotFound if the parent is missing. Not durable until the parent
// is synced.
Status CreateDirectoryNew(const std::string& path);

// Sets exactly these permission bits on the directory, regardless of the umask.
// A symbolic link is not followed. Durable once the directory is synced.
Status SetPermissions(const std::string& path, uint32_t mode);

// Makes the names in the directory durable. Ok if the file system does not
// support such a sync.
Status SyncDirectory(const std::string& path);

// Makes the bytes of a regular file durable. FailedPrecondition for other
// kinds.
Status SyncFile(const std::string& path);

// Renames the directory `source` to `target` in one step and makes the rename
// durable. AlreadyExists if anything is at `target`; FailedPrecondition if
// `source` is not a directory. If the call fails after the rename ("sync
// directory"), the target is visible but may not survive a power loss.
//
// Unimplemented, with a message saying so, on file systems that cannot rename
// directories. If renames have no flags there, an empty directory that is
// created at `target` at the same moment is replaced
// (stores/storage/rename_call.h).
Status PublishDirectory(const std::string& source, const std::string& target);

// Exchanges the names of two directories in one step and makes the exchange
// durable. At every moment, each name leads to one of the two. Unimplemented if
// the file system cannot do this (stores/storage/replace_directory.h works
// everywhere).
Status ExchangeDirectories(const std::string& a, const std::string& b);

// Removes the directory and everything below it. Symbolic links are removed,
// never followed. NotFound if `path` is missing; FailedPrecondition if it is
// not a directory, or if another file system is mounted below it;
// InvalidArgument for "", "/" and paths that end in "." or "..".
Status RemoveTree(const std::string& path);
// Like RemoveTree, for a directory at `path` that is open as `fd`. The contents
// are found through the descriptor, so a change of the name does not matter.
Status RemoveOpenTree(int fd, const std::string& path);

// Returns the names of all entries in byte order, including hidden ones, except
// those of stores/storage/nobodys_files.h.
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// All regular files and directories below a directory, with paths relative to
// it. Symbolic links and all other entries are left out, and never followed.
struct DirectoryTree {
  std::vector<std::string> files;        // in byte order within a directory
  std::vector<std::string> directories;  // deepest first, without the root
};
Result<DirectoryTree> ListTree(const std::string& path);

}  // namespace holdfast::local
