// FileCalls: every system call that the file store makes. A hook is called
// before each, so that a test can watch their order or fail the k-th call with
// an errno.
//
// Paths are relative to a root descriptor and never leave the root. The kernel
// resolves them (openat2, RESOLVE_BENEATH). Without openat2 they are resolved
// component by component, and every symbolic link is refused.
// Thread-safety: const methods from any thread, if the hook allows it.
// Ownership: borrows descriptors. Units: bytes.
// Errors: 0 or an errno value, in which case outputs are unchanged. EINTR is
// retried internally. ELOOP or EXDEV from OpenBeneath means a symbolic link
// that must not be followed.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "stores/storage/unique_fd.h"

namespace holdfast {

class FileCalls {
 public:
  // Called before each system call with its name ("open_root", "open",
  // "create", "mkdir", "fstat", "pread", "pwrite", "writeback", "fdatasync",
  // "fsync_directory", "rename", "unlink", "readdir") and the path, either
  // relative to the root or complete. A nonzero result is reported as the errno
  // instead of making the call.
  using Hook = std::function<int(std::string_view call, std::string_view path)>;

  explicit FileCalls(Hook hook = nullptr, bool use_openat2 = true)
      : hook_(std::move(hook)), use_openat2_(use_openat2) {}

  enum class Links : uint8_t {
    kInside,  // follow symbolic links that stay beneath the root
    kNone,    // refuse every symbolic link
  };

  // Opens `path` beneath `root`, adding O_CLOEXEC. `flags` must not contain
  // O_CREAT: only existing files can be opened. An empty path is the root
  // itself.
  int OpenBeneath(int root, const std::string& path, int flags, Links links,
                  UniqueFd& fd) const;
  // Makes a file with 0666 less the umask. The name has a single part and must
  // not exist yet.
  int CreateFile(int directory, const std::string& name, std::string_view path,
                 UniqueFd& fd) const;
  // Makes a directory with a single-part name and 0777 less the umask.
  int MakeDirectory(int parent, const std::string& name,
                    std::string_view path) const;
  int Stat(int fd, std::string_view path, struct stat& info) const;
  // Reads until `target` is full or the file ends. Sets `read_bytes` to the
  // number of bytes read.
  int ReadFull(int fd, uint64_t offset, std::span<char> target,
               std::string_view path, size_t& read_bytes) const;
  // Writes all pieces one after the other from `offset` on.
  int WriteFull(int fd, uint64_t offset,
                std::span<const std::string_view> pieces,
                std::string_view path) const;
  // Asks the kernel to start writing the range to disk. Returns nothing,
  // because it never waits for the disk and its failure never fails a save.
  void StartWriteback(int fd, uint64_t offset, uint64_t byte_count,
                      std::string_view path) const;
  int SyncData(int fd, std::string_view path) const;
  // Syncs a directory. Also ok if the file system does not support this.
  int SyncDirectory(int fd, std::string_view path) const;
  // Renames within one directory. Replaces `target`; with `must_create`, fails
  // instead if `target` exists (EEXIST), or if the file system cannot check
  // this in the same step (EOPNOTSUPP).
  int Rename(int directory, const std::string& source,
             const std::string& target, bool must_create,
             std::string_view path) const;
  int Unlink(int directory, const std::string& name,
             std::string_view path) const;
  // Returns the hook's result, for a call that is made elsewhere.
  int Ask(std::string_view call, std::string_view path) const {
    return hook_ ? hook_(call, path) : 0;
  }

 private:
  const Hook hook_;
  const bool use_openat2_;
};

}  // namespace holdfast
