// FileCall: one call that touches files, as values: what a hook in a process
// and a tracer of other processes both see.
//
// Thread-safety: a value. Ownership: borrows its texts and pieces.
// Units: bytes.
#pragma once

#include <fcntl.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

namespace holdfast {

enum class FileCallKind : uint8_t {
  // They change what is on the disk.
  kCreate,  // open with O_CREAT or O_TRUNC
  kMakeDirectory,
  kWrite,
  kResize,
  kRename,
  kExchange,
  kLink,
  kSymlink,  // `to` is what it holds
  kUnlink,   // and rmdir
  kChangeMode,
  // They make changes last.
  kSync,
  // They only look.
  kOpen,
  kRead,
  kStat,
  kListDirectory,
};

// Fields that a kind does not use keep their defaults.
struct FileCall {
  FileCallKind kind;
  int directory = AT_FDCWD;
  const char* path = nullptr;
  int to_directory = AT_FDCWD;
  const char* to = nullptr;
  int fd = -1;
  std::span<const iovec> pieces = {};  // kWrite
  // kWrite: -1 is the file's own position. kResize: the new size.
  off_t offset = -1;
  int flags = 0;  // kCreate and kOpen: of open; kLink: of linkat
};

}  // namespace holdfast
