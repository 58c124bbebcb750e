// The directory of a zip archive. Its entries are stored, not compressed; they
// may be deflated if the caller says that it can inflate them.
//
// Thread-safety: const methods may run concurrently. Ownership: borrows the
// source. Units: bytes; offsets in the source.
// Errors: DataLoss (not a zip archive, cut short, entries that overlap, are not
// where the directory says, or appear twice), Unimplemented (compressed,
// encrypted, several disks), with the name of the entry.
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
  uint64_t end_max = 0;  // start of the next entry, or of the directory
};

class ZipReader {
 public:
  // Reads only the directory.
  static Result<ZipReader> Open(const ByteSource& source,
                                bool allow_deflated = false);

  // The entries are sorted by offset in the archive.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Returns false if there are several entries and none has a checksum.
  // torch.save can leave the checksums out; then none is compared.
  bool has_checksums() const { return has_checksums_; }
  // Returns null if no entry has this name.
  const ZipEntry* Find(std::string_view name) const;
  // Returns the offset of the entry's bytes; checks the entry's own header.
  Result<uint64_t> DataOffset(const ZipEntry& entry) const;
  // Returns the entry's bytes, checked against its CRC. REQUIRES: not deflated.
  Result<std::string> Read(const ZipEntry& entry) const;
  // Like Read, but reads into memory of entry.byte_count bytes.
  Status ReadInto(const ZipEntry& entry, char* target) const;
  // Checks the entry's bytes against its CRC, piece by piece. REQUIRES: not
  // deflated.
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
