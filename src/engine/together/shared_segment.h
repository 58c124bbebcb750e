// Memory that processes of one host share: an unnamed file that exists only in
// memory, and mappings of it.
//
// All its pages are allocated when it is created, and its size is sealed, so
// that no later access to a mapping can fail. It is freed with the last mapping
// in the last process.
// Thread-safety: one thread per object; access to mapped memory follows the
// callers' rules. Ownership: a Mapping keeps the memory, whether or not its
// segment is still open. Units: bytes.
// Errors: ResourceExhausted when memory is short; Unimplemented where the
// system has no such files; PermissionDenied or NotFound when another process's
// segment cannot be opened; FailedPrecondition when it is not the expected
// segment.
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
  // Returns the range's full pages to the system, for every process that maps
  // them. Only for shared mappings. REQUIRES: the range is inside.
  void Discard(size_t offset, size_t byte_count) const;

 private:
  friend class SharedSegment;
  Mapping(char* data, size_t size) : data_(data), size_(size) {}

  char* const data_;
  const size_t size_;
};

// Identifies a segment, so that other processes can find it.
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
  // Creates a segment of zeros. Allocates the pages with the threads of
  // `executor`. REQUIRES: not empty.
  static Result<NewSegment> Create(size_t byte_count, Executor& executor);
  // Opens a segment of a process on this host, which must have this size.
  static Result<SharedSegment> Open(const SegmentName& name, size_t byte_count);

  SegmentName name() const;

  enum class Sharing : uint8_t {
    kShared,  // all processes see writes
    kOwn,     // a page that this process writes to becomes its own copy
  };
  // Maps the complete segment, with page tables filled: touching each page for
  // the first time would cost ten times as much.
  Result<std::shared_ptr<const Mapping>> Map(Sharing sharing) const;

 private:
  SharedSegment(UniqueFd fd, size_t size) : fd_(std::move(fd)), size_(size) {}
  Result<std::shared_ptr<const Mapping>> MapUntouched(Sharing sharing) const;

  UniqueFd fd_;
  size_t size_ = 0;
};

struct NewSegment {
  SharedSegment segment;
  std::shared_ptr<const Mapping> mapping;  // kShared, of the complete segment
};

size_t PageBytes();

}  // namespace holdfast
