// FileCall: one call that touches files, as a value that both a hook in a
// process and a tracer of other processes can fill in.
//
// Thread-safety: a value. Ownership: borrows its strings and pieces.
// Units: bytes.
#pragma once

#include <fcntl.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

namespace holdfast {

enum class FileCallKind : uint8_t {
  // These change the contents of the disk.
  kCreate,  // open with O_CREAT or O_TRUNC
  kMakeDirectory,
  kWrite,
  kResize,
  kRename,
  kExchange,
  kLink,
  kSymlink,  // `to` is its content
  kUnlink,   // and rmdir
  kChangeMode,
  // These make changes durable.
  kSync,
  // These only look.
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
  // kWrite: -1 means the file's own position. kResize: the new size.
  off_t offset = -1;
  int flags = 0;  // kCreate and kOpen: as for open; kLink: as for linkat
};

}  // namespace holdfast
