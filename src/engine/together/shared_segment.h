// Memory that processes of one host share: a file without a name that lives
// only in memory, and mappings of it.
//
// Its pages are all taken when it is made, and its size is sealed, so that no
// access to a mapping can fail later. It is freed with the last mapping of the
// last process.
// Thread-safety: one thread an object; the memory behind a mapping follows the
// callers' rules. Ownership: a Mapping keeps the memory, whether or not its
// segment is still open. Units: bytes.
// Errors: ResourceExhausted when memory is short; Unimplemented where the
// system has no such files; PermissionDenied or NotFound when another process's
// cannot be opened; FailedPrecondition when it is not what it should be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ground/base/executor.h"
#include "holdfast/status.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

class Mapping {
 public:
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  // Gives whole pages of a shared mapping back to the system, for every
  // process. REQUIRES: the range is inside.
  void Discard(size_t offset, size_t byte_count) const;

 private:
  friend class SharedSegment;
  Mapping(char* data, size_t size) : data_(data), size_(size) {}

  char* const data_;
  const size_t size_;
};

// Other processes find a segment by this.
struct SegmentName {
  int64_t process_id = 0;
  int64_t fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;

  std::string Encode() const;
  static Result<SegmentName> Decode(std::string_view bytes);
};

struct NewSegment;

class SharedSegment {
 public:
  // Zeros. Takes the pages with the threads of `executor`. REQUIRES: not empty.
  static Result<NewSegment> Create(size_t byte_count, Executor& executor);
  // That of a process of this host, which is to be of this size.
  static Result<SharedSegment> Open(const SegmentName& name, size_t byte_count);

  SegmentName name() const;

  enum class Sharing : uint8_t {
    kShared,  // writes are seen by all
    kOwn,     // what this process writes to becomes its own copy
  };
  // Maps all of it, with page tables filled: a first touch of each page would
  // cost ten times as much.
  Result<std::shared_ptr<const Mapping>> Map(Sharing sharing) const;

 private:
  SharedSegment(UniqueFd fd, size_t size) : fd_(std::move(fd)), size_(size) {}
  Result<std::shared_ptr<const Mapping>> MapUntouched(Sharing sharing) const;

  UniqueFd fd_;
  size_t size_ = 0;
};

struct NewSegment {
  SharedSegment segment;
  std::shared_ptr<const Mapping> mapping;  // kShared, of all of it
};

size_t PageBytes();

}  // namespace holdfast
