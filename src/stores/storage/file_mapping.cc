#include "stores/storage/file_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "stores/storage/errno_status.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

Result<std::shared_ptr<const FileMapping>> FileMapping::Map(
    const std::string& path, uint64_t offset, uint64_t byte_count,
    Access access) {
  // With O_NONBLOCK, opening a FIFO does not wait for a writer.
  const UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return ErrnoStatus(errno, "map", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "map", path);
  if (!S_ISREG(info.st_mode)) {
    return NotFoundError("map " + path + ": not a regular file");
  }
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  if (offset > file_bytes || byte_count > file_bytes - offset) {
    return DataLossError("map " + path + ": " + std::to_string(byte_count) +
                         " bytes at offset " + std::to_string(offset) +
                         " are not inside the file (got " +
                         std::to_string(file_bytes) + " bytes)");
  }
  const uint64_t first =
      offset - offset % static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t mapped_bytes = offset + byte_count - first;
  // MAP_NORESERVE: a model may be larger than the memory, so nothing is
  // reserved for copies of pages that are never written.
  const int protection =
      access == Access::kCopyOnWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data =
      ::mmap(nullptr, mapped_bytes, protection, MAP_PRIVATE | MAP_NORESERVE,
             fd.get(), static_cast<off_t>(first));
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", path);
  return std::shared_ptr<const FileMapping>(
      new FileMapping(static_cast<char*>(data), first, mapped_bytes));
}

FileMapping::~FileMapping() { ::munmap(data_, byte_count_); }

}  // namespace holdfast
