// PositionedFile: a file of known size that many threads write at once, each
// its own ranges, and that a later run may go on with.
//
// Unlike an ObjectWriter it has its name from the start: for directories that
// are not yet what they will be.
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
  // Makes the file, or with `keep` opens what is there; it then has byte_count
  // bytes, new ones zero. Anything else under the name is FailedPrecondition.
  static Result<std::unique_ptr<PositionedFile>> Open(std::string path,
                                                      uint64_t byte_count,
                                                      bool keep);

  Status WriteAt(uint64_t offset, std::string_view bytes);
  // Gives the file another size; no WriteAt runs.
  Status Resize(uint64_t byte_count);
  // The bytes and the size are on stable storage; the name is not.
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
