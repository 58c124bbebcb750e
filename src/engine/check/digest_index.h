// DigestIndex: the checksums of `_HOLDFAST_DIGESTS`, ready for lookup.
//
// Thread-safety: immutable. Units: offsets and sizes in bytes.
// Errors: DataLoss with both checksums; the caller adds the place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/format/digest_file.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast {

// Returns the size and checksum of a stored file, which it reads in pieces.
Result<FileDigest> SumFile(Store& store, const std::string& path);

class DigestIndex {
 public:
  // Returns nullopt if the directory has no `_HOLDFAST_DIGESTS`.
  static Result<std::optional<DigestIndex>> Read(Store& store);
  // Parses the file's text. The caller adds the file's name to errors.
  static Result<DigestIndex> Parse(std::string_view text);
  // Returns the rows for files whose paths begin with `prefix`, with paths
  // relative to it; nullopt if no path does.
  std::optional<DigestIndex> Below(const std::string& prefix) const;

  bool HasFile(std::string_view path) const {
    return FindFile(path) != nullptr;
  }
  // Checks the content of a file; returns ok if the file is not listed.
  Status CheckFile(std::string_view path, std::string_view content) const;
  // Returns null if the file is not listed.
  const FileDigest* FindFile(std::string_view path) const;
  // Returns null if the value is not listed.
  const ValueDigest* FindValue(std::string_view path, uint64_t offset) const;
  // Returns the rows for values and nodes in one file, by offset.
  std::span<const ValueDigest> RowsOf(std::string_view path) const;
  // Returns whether any row is about the file.
  bool Lists(std::string_view path) const {
    return FindFile(path) != nullptr || !RowsOf(path).empty();
  }
  static Status CheckValue(const ValueDigest& row, std::string_view content);
  static Status CheckFile(const FileDigest& row, std::string_view content);
  // Returns ok if `got` matches the row.
  static Status CheckSum(const FileDigest& row, const FileDigest& got);

  const std::vector<SourceFile>& sources() const { return digests_.sources; }
  const std::vector<FileDigest>& files() const { return digests_.files; }
  // Returns the rows for complete files whose paths begin with `prefix`.
  std::span<const FileDigest> FilesBelow(std::string_view prefix) const;
  const std::vector<ValueDigest>& values() const { return digests_.values; }
  uint64_t block_bytes() const { return digests_.block_bytes; }

 private:
  explicit DigestIndex(DigestFile digests);

  DigestFile digests_;  // rows sorted by path and offset
};

}  // namespace holdfast
