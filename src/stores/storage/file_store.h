// FileStore: a Store in a directory of a POSIX file system; key "a/b" is the
// file <root>/a/b.
//
// The first write creates the root and its parents. The root is opened once and
// then kept open, so the store follows a directory that is renamed, and after a
// root is removed a new FileStore is needed. The root's own path may contain
// symbolic links. Below the root, links are followed only for reading and for
// parent directories, and never out of the root (InvalidArgument names the
// link); a write replaces a link, and Delete removes it. Absolute links count
// as leading out.
// Objects are regular files: a directory or a device under a key is NotFound.
// Hidden names (new_file.h) are refused for writing.
// Directories are made on demand with 0777 less the umask, files with 0666 less
// the umask; no directory is ever removed.
// Every write makes a new file; an old file of the same name is replaced, never
// changed, so its open readers and hard links keep it.
// Recently read files stay open. Each read notices when its file was replaced,
// removed or renamed by any process; but if a directory below the root is
// renamed, or a link is changed, files that were opened through it before are
// still read (open_files_max = 0 avoids that).
// Thread-safety: any thread. Ownership: owns its descriptors. Units: bytes.
// Errors: store.h and errno_status.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/storage/fd_cache.h"
#include "stores/storage/file_calls.h"
#include "stores/storage/new_file.h"
#include "stores/storage/store.h"
#include "stores/storage/touched_directories.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

struct FileStoreOptions {
  // Files kept open for reading; 0 opens a file for each read.
  size_t open_files_max = 256;
  // False resolves paths component by component, as on kernels before 5.6.
  bool use_openat2 = true;
  // For tests: watch or fail system calls.
  FileCalls::Hook hook;
};

class FileStore : public Store {
 public:
  using Store::Write;

  // Does no I/O.
  explicit FileStore(std::string root, FileStoreOptions options = {});

  const std::string& root_path() const { return root_path_; }

  std::string Describe(std::string_view key) const override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  Status List(std::string_view prefix,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>& fn) override;
  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options = {}) override;
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override;
  Result<std::unique_ptr<ObjectWriter>> CreateShared(
      std::string_view key, uint64_t byte_count) override;
  Status Delete(std::string_view key) override;
  Status SyncNames() override;

  // The open file, for callers that read it by its descriptor.
  struct OpenedObject {
    std::shared_ptr<const OpenFile> file;
    uint64_t byte_count;
  };
  Result<OpenedObject> OpenForRead(std::string_view key);

 private:
  class Writer;
  class SharedWriter;
  // Follows links that stay beneath the root. Returns 0 or the errno.
  int OpenBeneath(int root, const std::string& path, int flags, UniqueFd& fd);
  // The root's descriptor. NotFound when the root is missing and `make` is
  // false.
  Result<int> OpenRoot(bool make);
  int MakeRoot(const std::string& path);
  // Opens the directory that holds the key.
  Result<UniqueFd> OpenParent(std::string_view key, bool make);
  Status MakeDirectories(int root, std::string_view directory);
  Result<OpenedObject> OpenUncached(std::string_view key);
  Status ReadAt(const OpenedObject& object, std::string_view key,
                uint64_t offset, std::span<char> target);
  Result<std::unique_ptr<NewFile>> OpenNew(std::string_view key,
                                           const WriteOptions& options);
  // Called after a name changed: reads must look again, and SyncNames has work.
  void NoteNewName(std::string_view key);
  // Syncs level by level in the given order, many directories of one level
  // concurrently.
  Status SyncDirectories(std::span<const std::string> directories);
  Status SyncOneDirectory(int root, const std::string& directory);
  Status SyncRootParents();
  // Status of a failed open, naming the symbolic link that stopped it.
  Status PathError(int error, std::string_view what, std::string_view key,
                   int root) const;

  const std::string root_path_;
  const FileCalls calls_;
  FdCache read_files_;
  TouchedDirectories touched_;

  std::mutex root_mutex_;
  UniqueFd root_;
  // Directories outside the root that hold a name made by MakeRoot and not yet
  // synced, deepest first.
  std::vector<std::string> root_parents_;
  // SyncNames locks it exclusively: a write must not report a name as durable
  // before the directories that SyncNames took are synced. Writes that sync
  // their own names share it.
  std::shared_mutex sync_mutex_;
};

}  // namespace holdfast
