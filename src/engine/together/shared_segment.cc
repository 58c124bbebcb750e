#include "engine/together/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "stores/storage/errno_status.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace holdfast {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// The size of the pages that a thread allocates at a time.
constexpr size_t kPopulateBytes = 32 << 20;

// From this size on, huge pages are worth the rounding.
constexpr size_t kHugePageBytesMin = 4 << 20;

std::string BytesText(size_t byte_count) {
  return "segment of " + std::to_string(byte_count) + " bytes";
}

Status Populate(int fd, const Mapping& mapping, Executor& executor) {
  if (mapping.size() >= kHugePageBytesMin) {
    ::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  }
  const size_t piece_count =
      (mapping.size() + kPopulateBytes - 1) / kPopulateBytes;
  return executor.ParallelFor(piece_count, [&](size_t i, int) -> Status {
    const size_t offset = i * kPopulateBytes;
    const size_t byte_count = std::min(kPopulateBytes, mapping.size() - offset);
    int error = 0;
    if (::madvise(mapping.data() + offset, byte_count, MADV_POPULATE_WRITE)) {
      error = errno;
    }
    // Linux before 5.14 does not support this.
    if (error == EINVAL) {
      error = ::fallocate(fd, 0, static_cast<off_t>(offset),
                          static_cast<off_t>(byte_count)) != 0
                  ? errno
                  : 0;
    }
    if (error == 0) return Status();
    return ResourceExhaustedError(
        "shared memory: " + BytesText(mapping.size()) + ": " +
        std::string(ErrnoStatus(error, "take pages of", "it").message()));
  });
}

}  // namespace

size_t PageBytes() {
  static const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return page_bytes;
}

Mapping::~Mapping() { ::munmap(data_, size_); }

void Mapping::Discard(size_t offset, size_t byte_count) const {
  const size_t page_bytes = PageBytes();
  // Only complete pages: pages at the ends may hold bytes of other arrays.
  const size_t first = (offset + page_bytes - 1) / page_bytes * page_bytes;
  const size_t last = (offset + byte_count) / page_bytes * page_bytes;
  if (first < last) ::madvise(data_ + first, last - first, MADV_REMOVE);
}

std::string SegmentName::Encode() const {
  std::string bytes;
  PutU64Little(bytes, static_cast<uint64_t>(process_id));
  PutU64Little(bytes, static_cast<uint64_t>(fd));
  PutU64Little(bytes, device);
  PutU64Little(bytes, inode);
  return bytes;
}

Result<SegmentName> SegmentName::Decode(std::string_view bytes) {
  Cursor cursor(bytes);
  SegmentName name;
  uint64_t process_id = 0, fd = 0;
  if (!cursor.ReadU64Little(process_id) || !cursor.ReadU64Little(fd) ||
      !cursor.ReadU64Little(name.device) || !cursor.ReadU64Little(name.inode) ||
      cursor.remaining() != 0) {
    return DataLossError("the name of a shared segment has " +
                         std::to_string(bytes.size()) + " bytes, want 32");
  }
  name.process_id = static_cast<int64_t>(process_id);
  name.fd = static_cast<int64_t>(fd);
  return name;
}

Result<NewSegment> SharedSegment::Create(size_t byte_count,
                                         Executor& executor) {
  assert(byte_count > 0);
  UniqueFd fd(::memfd_create("holdfast", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return ErrnoStatus(errno, "make a shared", BytesText(byte_count));
  }
  // Sealed, because a process that shrank the file would kill all others that
  // read their mapping (SIGBUS).
  if (::ftruncate(fd.get(), static_cast<off_t>(byte_count)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    return ErrnoStatus(errno, "size a shared", BytesText(byte_count));
  }
  SharedSegment segment(std::move(fd), byte_count);
  HF_ASSIGN_OR_RETURN(auto mapping, segment.MapUntouched(Sharing::kShared));
  // Pages are allocated now, so that a lack of memory is an error here instead
  // of a SIGBUS at the first write.
  HF_RETURN_IF_ERROR(Populate(segment.fd_.get(), *mapping, executor));
  return NewSegment{std::move(segment), std::move(mapping)};
}

Result<SharedSegment> SharedSegment::Open(const SegmentName& name,
                                          size_t byte_count) {
  const std::string path = "/proc/" + std::to_string(name.process_id) + "/fd/" +
                           std::to_string(name.fd);
  // Opening a wrong file must not block, as a pipe without a writer would.
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return ErrnoStatus(errno, "open shared memory", path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "look at shared memory", path);
  }
  const bool is_it = S_ISREG(info.st_mode) && info.st_dev == name.device &&
                     info.st_ino == name.inode;
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (!is_it || seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return FailedPreconditionError("shared memory " + path +
                                   " is not the segment that it should be");
  }
  if (static_cast<uint64_t>(info.st_size) != byte_count) {
    return FailedPreconditionError(
        "shared memory " + path + " has another size (got " +
        std::to_string(info.st_size) + " bytes, want " +
        std::to_string(byte_count) + ")");
  }
  return SharedSegment(std::move(fd), byte_count);
}

SegmentName SharedSegment::name() const {
  struct stat info{};
  ::fstat(fd_.get(), &info);
  return {::getpid(), fd_.get(), info.st_dev, info.st_ino};
}

Result<std::shared_ptr<const Mapping>> SharedSegment::MapUntouched(
    Sharing sharing) const {
  const int flags = sharing == Sharing::kShared ? MAP_SHARED : MAP_PRIVATE;
  void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                      flags | MAP_NORESERVE, fd_.get(), 0);
  if (data == MAP_FAILED) {
    return ErrnoStatus(errno, "map a shared", BytesText(size_));
  }
  return std::shared_ptr<const Mapping>(
      new Mapping(static_cast<char*>(data), size_));
}

Result<std::shared_ptr<const Mapping>> SharedSegment::Map(
    Sharing sharing) const {
  HF_ASSIGN_OR_RETURN(auto mapping, MapUntouched(sharing));
  // The result is ignored because it affects only speed.
  ::madvise(mapping->data(), size_, MADV_POPULATE_READ);
  return mapping;
}

}  // namespace holdfast
