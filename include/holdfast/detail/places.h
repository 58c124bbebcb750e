// Files and directories wherever checkpoints may lie: a path, or a URL
// (gs://bucket/…, s3://bucket/…; for reading https://host/…, hf://org/model).
//
// Made for programs that keep files of their own beside a checkpoint's: to
// look, list, read, write and remove. In an object store a directory is what
// names have in common: it exists while an object lies below it, making one
// does nothing, and removing the last object removes it. Nothing here follows
// or makes symbolic links below a directory that is removed.
//
// Thread-safety: functions from any thread; a PlaceReader from any thread, a
// PlaceWriter from one at a time. Ownership: readers and writers keep their
// connections alive. Units: bytes; times are nanoseconds since 1970.
// Errors: NotFound (no such file, directory or bucket), PermissionDenied
// (missing, wrong or expired credentials; no right), InvalidArgument (a bad
// URL), Unimplemented (what the store cannot do; no such scheme),
// Unavailable, DeadlineExceeded; each with the path or URL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// "scheme://…".
bool IsPlaceUrl(std::string_view path);

struct PlaceInfo {
  enum class Kind : uint8_t { kMissing, kFile, kDirectory, kOther };
  Kind kind = Kind::kMissing;
  uint64_t byte_count = 0;  // of a file
  int64_t modified_ns = 0;  // 0: not known, as for directories of buckets
};
// Follows links. A missing file is not an error; a missing bucket is.
Result<PlaceInfo> StatPlace(const std::string& path);

struct PlaceEntry {
  std::string name;
  PlaceInfo info;
};
// The entries of a directory, by name.
Result<std::vector<PlaceEntry>> ListPlace(const std::string& path);

// A file that is read in pieces, all of one version: should it be replaced
// meanwhile, reading on is DataLoss.
class PlaceReader {
 public:
  static Result<std::unique_ptr<PlaceReader>> Open(const std::string& path);
  virtual ~PlaceReader() = default;
  virtual uint64_t byte_count() const = 0;
  // Exactly these bytes; OutOfRange beyond the end.
  virtual Result<std::string> Read(uint64_t offset, uint64_t byte_count) = 0;
};
// The whole file.
Result<std::string> ReadPlace(const std::string& path);

// A file that is written in pieces. It appears, whole, by Finish; without it
// nothing does.
class PlaceWriter {
 public:
  static Result<std::unique_ptr<PlaceWriter>> Open(const std::string& path);
  virtual ~PlaceWriter() = default;
  virtual Status Append(std::string_view piece) = 0;
  virtual Status Finish() = 0;
};
// The whole file at once, durably. With `must_create` AlreadyExists when there
// is one; of several that try so at once, one wins.
Status WritePlace(const std::string& path, std::string_view content,
                  bool must_create = false);

// NotFound when there is no such file.
Status RemovePlaceFile(const std::string& path);
// A directory and all below it; markers of commits first.
Status RemovePlaceTree(const std::string& path);
// Copies a file; within one bucket the server does it. Replaces an existing
// target.
Status CopyPlaceFile(const std::string& source, const std::string& target);
// Makes the names in a directory durable. Ok where the file system knows no
// such sync, and for URLs, whose names are.
Status SyncPlaceDirectory(const std::string& path);
// Whether a file or directory of that name is one that systems leave anywhere
// (".DS_Store", "._x", ".nfs0123", "Thumbs.db", ".ipynb_checkpoints"), and
// nobody's: no part of a checkpoint, nor in the way of one.
bool IsNobodysName(std::string_view name, bool is_directory);
// In an object store the server copies the file within one bucket, then it is
// removed. Replaces an existing target.
Status RenamePlaceFile(const std::string& source, const std::string& target);
// AlreadyExists when anything is at the target. In an object store it takes
// several steps; the marker of a commit is copied last and removed first.
Status RenamePlaceDirectory(const std::string& source,
                            const std::string& target);

}  // namespace HOLDFAST_EXPORT
