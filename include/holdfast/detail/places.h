// Files and directories wherever checkpoints may be stored: at a path, or a URL
// (gs://bucket/…, s3://bucket/…; read-only https://host/…, hf://org/model).
//
// For programs that keep their own files next to a checkpoint's: to inspect,
// list, read, write and remove them. In an object store a directory is a common
// prefix of object names: it exists while an object exists below it, creating
// one does nothing, and removing its last object removes it. Removing a
// directory never follows symbolic links below it.
//
// Thread-safety: functions and PlaceReader from any thread, a PlaceWriter from
// one at a time. Ownership: readers and writers keep their connections alive.
// Units: bytes; times are nanoseconds since 1970.
// Errors: NotFound (no such file, directory or bucket), PermissionDenied
// (missing, wrong or expired credentials; no permission), InvalidArgument (a
// bad URL), Unimplemented (not supported by the store; unknown scheme),
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

// True for "scheme://…".
bool IsPlaceUrl(std::string_view path);

struct PlaceInfo {
  enum class Kind : uint8_t { kMissing, kFile, kDirectory, kOther };
  Kind kind = Kind::kMissing;
  uint64_t byte_count = 0;  // of a file
  int64_t modified_ns = 0;  // 0: not known, as for directories in buckets
};
// Follows links. A missing file is not an error, but a missing bucket is.
Result<PlaceInfo> StatPlace(const std::string& path);

struct PlaceEntry {
  std::string name;
  PlaceInfo info;
};
// The entries of a directory, sorted by name.
Result<std::vector<PlaceEntry>> ListPlace(const std::string& path);

// A file that is read in pieces, all of the same version: if the file is
// replaced in the meantime, further reads fail with DataLoss.
class PlaceReader {
 public:
  static Result<std::unique_ptr<PlaceReader>> Open(const std::string& path);
  virtual ~PlaceReader() = default;
  virtual uint64_t byte_count() const = 0;
  // Reads exactly these bytes; OutOfRange beyond the end.
  virtual Result<std::string> Read(uint64_t offset, uint64_t byte_count) = 0;
};
// Reads the complete file.
Result<std::string> ReadPlace(const std::string& path);

// A file that is written in pieces. It appears, complete, with Finish; without
// Finish nothing appears.
class PlaceWriter {
 public:
  static Result<std::unique_ptr<PlaceWriter>> Open(const std::string& path);
  virtual ~PlaceWriter() = default;
  virtual Status Append(std::string_view piece) = 0;
  virtual Status Finish() = 0;
};
// Writes the complete file in one step, durably. With `must_create`,
// AlreadyExists if the file exists; of several concurrent attempts, one wins.
Status WritePlace(const std::string& path, std::string_view content,
                  bool must_create = false);

// NotFound if the file does not exist.
Status RemovePlaceFile(const std::string& path);
// Removes a directory and everything below it, commit markers first.
Status RemovePlaceTree(const std::string& path);
// Copies a file; within one bucket the server copies it. Replaces an existing
// target.
Status CopyPlaceFile(const std::string& source, const std::string& target);
// Makes the names in a directory durable. Ok where the file system has no such
// sync, and for URLs, whose names are always durable.
Status SyncPlaceDirectory(const std::string& path);
// Whether a file or directory with this name is one that systems leave anywhere
// (".DS_Store", "._x", ".nfs0123", "Thumbs.db", ".ipynb_checkpoints"): it
// belongs to no user, is not part of a checkpoint, and does not get in the way
// of one.
bool IsNobodysName(std::string_view name, bool is_directory);
// In an object store the server copies the file within one bucket, and the
// source is then removed. Replaces an existing target.
Status RenamePlaceFile(const std::string& source, const std::string& target);
// AlreadyExists if anything exists at the target. In an object store it takes
// several steps; the commit marker is copied last and removed first.
Status RenamePlaceDirectory(const std::string& source,
                            const std::string& target);

}  // namespace HOLDFAST_EXPORT
