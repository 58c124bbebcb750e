// FileMapping: a range of a file mapped into the process's memory.
//
// A page is read from the file when it is first touched. The file must keep its
// length: touching a page beyond the end of the file raises SIGBUS. Map checks
// that the range is inside the file, but cannot keep the file from being
// truncated afterwards.
//
// Thread-safety: immutable; callers synchronize access to the memory.
// Ownership: owns the mapping, which stays valid when the file's name is
// removed.
// Units: bytes.
// Errors: those of opening the file; NotFound for anything but a regular file;
// DataLoss for a range that is not inside the file; ResourceExhausted if the
// system has no room for another mapping.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

class FileMapping {
 public:
  enum class Access : uint8_t {
    kRead,
    // Writes change this process's own copy of a page, never the file.
    kCopyOnWrite,
  };
  // Maps the bytes [offset, offset + byte_count) of the file. REQUIRES:
  // byte_count > 0.
  static Result<std::shared_ptr<const FileMapping>> Map(const std::string& path,
                                                        uint64_t offset,
                                                        uint64_t byte_count,
                                                        Access access);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  // Returns the address of the file's byte at `offset`. REQUIRES: the byte is
  // in the mapped range.
  char* at(uint64_t offset) const { return data_ + (offset - first_); }

 private:
  FileMapping(char* data, uint64_t first, uint64_t byte_count)
      : data_(data), first_(first), byte_count_(byte_count) {}

  char* const data_;      // starts at a page boundary
  const uint64_t first_;  // the offset of data_ in the file
  const uint64_t byte_count_;
};

}  // namespace holdfast
