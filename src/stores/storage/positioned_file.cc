#include "stores/storage/positioned_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "ground/base/status_macros.h"
#include "stores/storage/errno_status.h"

namespace holdfast {

Result<std::unique_ptr<PositionedFile>> PositionedFile::Open(
    std::string path, uint64_t byte_count, bool keep) {
  // O_NOFOLLOW keeps a link planted under the name from redirecting the write.
  const int flags =
      O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (keep ? 0 : O_EXCL);
  UniqueFd fd(::open(path.c_str(), flags, 0666));
  if (!fd.valid()) return ErrnoStatus(errno, "create", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) {
    return FailedPreconditionError(path + " is not a regular file");
  }
  std::unique_ptr<PositionedFile> file(
      new PositionedFile(std::move(path), std::move(fd)));
  HF_RETURN_IF_ERROR(file->Resize(byte_count));
  return file;
}

Status PositionedFile::WriteAt(uint64_t offset, std::string_view bytes) {
  const int error = calls_.WriteFull(fd_.get(), offset, {&bytes, 1}, path_);
  if (error != 0) return ErrnoStatus(error, "write", path_);
  if (const auto range = window_.Note(offset, bytes.size())) {
    calls_.StartWriteback(fd_.get(), range->offset, range->byte_count, path_);
  }
  return Status();
}

Status PositionedFile::Resize(uint64_t byte_count) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(byte_count)) == 0) {
    return Status();
  }
  return ErrnoStatus(errno, "resize", path_);
}

Status PositionedFile::Sync() {
  const int error = calls_.SyncData(fd_.get(), path_);
  return error == 0 ? Status() : ErrnoStatus(error, "sync", path_);
}

}  // namespace holdfast
