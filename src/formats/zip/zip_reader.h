// The directory of a zip archive whose entries are stored, not compressed; or
// deflated, for callers who say that they can inflate.
//
// Thread-safety: const methods may run concurrently. Ownership: borrows the
// source. Units: bytes; offsets in the source.
// Errors: DataLoss (no zip archive, cut, entries that overlap, lie about where
// they are, or appear twice), Unimplemented (compressed, encrypted, several
// disks), each naming the entry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/zip/byte_source.h"
#include "holdfast/status.h"

namespace holdfast::pickle {

struct ZipEntry {
  std::string name;
  uint64_t byte_count = 0;         // of its content
  uint64_t stored_byte_count = 0;  // in the archive
  bool is_deflated = false;
  uint32_t crc32 = 0;
  uint64_t header_offset = 0;
  uint64_t end_max = 0;  // where the next entry, or the directory, begins
};

class ZipReader {
 public:
  // Reads only the directory.
  static Result<ZipReader> Open(const ByteSource& source,
                                bool allow_deflated = false);

  // Sorted by their place in the archive.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  // False when none of several entries has one: torch.save can leave them out.
  // Nothing is compared then.
  bool has_checksums() const { return has_checksums_; }
  // Null when no entry has this name.
  const ZipEntry* Find(std::string_view name) const;
  // The place of the entry's bytes; its own header is checked.
  Result<uint64_t> DataOffset(const ZipEntry& entry) const;
  // Its bytes, checked against its CRC. REQUIRES: not deflated.
  Result<std::string> Read(const ZipEntry& entry) const;
  // The same into memory of entry.byte_count.
  Status ReadInto(const ZipEntry& entry, char* target) const;
  // Its bytes against its CRC, piece by piece. REQUIRES: not deflated.
  Status Check(const ZipEntry& entry) const;

 private:
  ZipReader(const ByteSource& source, bool allow_deflated)
      : source_(&source), allow_deflated_(allow_deflated) {}

  const ByteSource* source_;
  bool allow_deflated_;
  bool has_checksums_ = true;
  std::vector<ZipEntry> entries_;
};

}  // namespace holdfast::pickle
