// PositionedFile: a file of known size. Many threads write it concurrently,
// each its own ranges, and a later run may continue it.
//
// Unlike an ObjectWriter's file, it has its final name from the start, so it
// must be in a directory that is not complete yet.
// Thread-safety: WriteAt from any thread; everything else from one thread at a
// time.
// Units: bytes. Errors: errno_status.h, with the path.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/storage/file_calls.h"
#include "stores/storage/unique_fd.h"
#include "stores/storage/writeback_window.h"

namespace holdfast {

class PositionedFile {
 public:
  // Creates the file; with `keep`, an existing file is opened instead. Makes
  // its size `byte_count`; new bytes are zero. FailedPrecondition if the name
  // belongs to anything but a regular file.
  static Result<std::unique_ptr<PositionedFile>> Open(std::string path,
                                                      uint64_t byte_count,
                                                      bool keep);

  Status WriteAt(uint64_t offset, std::string_view bytes);
  // Changes the file's size; no WriteAt may be running.
  Status Resize(uint64_t byte_count);
  // Makes the bytes and the size durable, but not the name.
  Status Sync();

  const std::string& path() const { return path_; }

 private:
  PositionedFile(std::string path, UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  const UniqueFd fd_;
  const FileCalls calls_;
  WritebackWindow window_{uint64_t{32} << 20};
};

}  // namespace holdfast
