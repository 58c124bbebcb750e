// FileStore: a Store in a directory of a POSIX file system. The key "a/b" is
// the file <root>/a/b.
//
// The first write creates the root and its parents. The root is opened once and
// then kept open, so the store follows its root when the root is renamed. After
// the root is removed, a new FileStore is needed.
//
// The root's own path may contain symbolic links. Below the root, links are
// followed only for reading and for parent directories, and never out of the
// root (InvalidArgument names the link). Absolute links count as leading out. A
// write replaces a link, and Delete removes it.
//
// Objects are regular files: a directory or a device under a key is NotFound.
// Hidden names (new_file.h) are refused for writing. Directories are made on
// demand with 0777 less the umask, files with 0666 less the umask. No directory
// is ever removed.
//
// Every write makes a new file. An old file of the same name is replaced, never
// changed, so its open readers and hard links keep it.
//
// Recently read files stay open. Each read notices when any process has
// replaced, removed or renamed its file. But if a directory below the root is
// renamed, or a link is changed, files that were opened through it before are
// still read (open_files_max = 0 avoids that).
//
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
  // The number of files kept open for reading. With 0, each read opens its
  // file.
  size_t open_files_max = 256;
  // If false, paths are resolved component by component, as on kernels before
  // 5.6.
  bool use_openat2 = true;
  // For tests, which watch or fail system calls.
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

  // An open file, for callers that read it by its descriptor.
  struct OpenedObject {
    std::shared_ptr<const OpenFile> file;
    uint64_t byte_count;
  };
  Result<OpenedObject> OpenForRead(std::string_view key);

 private:
  class Writer;
  class SharedWriter;
  // Opens `path`, following links that stay beneath the root. Returns 0 or an
  // errno.
  int OpenBeneath(int root, const std::string& path, int flags, UniqueFd& fd);
  // Returns the root's descriptor. NotFound if the root is missing and `make`
  // is false.
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
  // Called after a name has changed: drops the cached file, and notes work for
  // SyncNames.
  void NoteNewName(std::string_view key);
  // Syncs the directories level by level in the given order, and those of one
  // level concurrently.
  Status SyncDirectories(std::span<const std::string> directories);
  Status SyncOneDirectory(int root, const std::string& directory);
  Status SyncRootParents();
  // Returns the Status of a failed open, which names the symbolic link that
  // stopped it.
  Status PathError(int error, std::string_view what, std::string_view key,
                   int root) const;

  const std::string root_path_;
  const FileCalls calls_;
  FdCache read_files_;
  TouchedDirectories touched_;

  std::mutex root_mutex_;
  UniqueFd root_;
  // Directories outside the root in which MakeRoot made a name that is not
  // synced yet, deepest first.
  std::vector<std::string> root_parents_;
  // SyncNames locks this exclusively, because a write must not report a name as
  // durable before the directories that SyncNames took are synced. Writes that
  // sync their own names lock it shared.
  std::shared_mutex sync_mutex_;
};

}  // namespace holdfast
