// Files and directories wherever checkpoints may be stored: at a path, or a URL
// (gs://bucket/…, s3://bucket/…; read-only https://host/…, hf://org/model).
//
// Programs that keep their own files next to a checkpoint's can inspect, list,
// read, write and remove them with these functions.
//
// In an object store, a directory is a common prefix of object names. It exists
// while an object exists below it; creating it does nothing, and removing its
// last object removes it. Removing a directory never follows symbolic links
// below it.
//
// Thread-safety: functions and PlaceReader from any thread; a PlaceWriter from
// one thread at a time.
// Ownership: readers and writers keep their connections alive.
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

// Returns true for "scheme://…".
bool IsPlaceUrl(std::string_view path);

struct PlaceInfo {
  enum class Kind : uint8_t { kMissing, kFile, kDirectory, kOther };
  Kind kind = Kind::kMissing;
  uint64_t byte_count = 0;  // of a file
  int64_t modified_ns = 0;  // 0: not known, as for directories in buckets
};
// Describes the file or directory at `path`, following links. A missing file is
// not an error, but a missing bucket is.
Result<PlaceInfo> StatPlace(const std::string& path);

struct PlaceEntry {
  std::string name;
  PlaceInfo info;
};
// Returns the entries of a directory, sorted by name.
Result<std::vector<PlaceEntry>> ListPlace(const std::string& path);

// A file that is read in pieces. All pieces are of the same version: if the
// file is replaced in the meantime, further reads fail with DataLoss.
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

// A file that is written in pieces. Finish makes it appear, complete; without
// Finish nothing appears.
class PlaceWriter {
 public:
  static Result<std::unique_ptr<PlaceWriter>> Open(const std::string& path);
  virtual ~PlaceWriter() = default;
  virtual Status Append(std::string_view piece) = 0;
  virtual Status Finish() = 0;
};
// Writes the complete file in one step, durably. With `must_create`,
// AlreadyExists if the file exists; exactly one of several concurrent attempts
// succeeds.
Status WritePlace(const std::string& path, std::string_view content,
                  bool must_create = false);

// Removes a file. NotFound if it does not exist.
Status RemovePlaceFile(const std::string& path);
// Removes a directory and everything below it, commit markers first.
Status RemovePlaceTree(const std::string& path);
// Copies a file, replacing an existing target. Within one bucket the server
// copies it.
Status CopyPlaceFile(const std::string& source, const std::string& target);
// Makes the names in a directory durable. Does nothing if the file system does
// not support that, and for URLs, whose names are always durable.
Status SyncPlaceDirectory(const std::string& path);
// Returns true for names of files and directories that operating systems and
// tools leave in any directory (".DS_Store", "._x", ".nfs0123", "Thumbs.db",
// ".ipynb_checkpoints"). Such files are neither part of a checkpoint nor the
// user's own, and do not keep a save from using the directory.
bool IsNobodysName(std::string_view name, bool is_directory);
// Renames a file, replacing an existing target. In an object store, the server
// copies the file within one bucket, and the source is then removed.
Status RenamePlaceFile(const std::string& source, const std::string& target);
// Renames a directory. AlreadyExists if anything exists at the target. In an
// object store this takes several steps; the commit marker is copied last and
// removed first.
Status RenamePlaceDirectory(const std::string& source,
                            const std::string& target);

}  // namespace HOLDFAST_EXPORT
