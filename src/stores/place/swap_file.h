// SwapFile: compare and swap of the content of a file in an object store, by
// which independent writers coordinate.
//
// Thread-safety: any thread, any process. Ownership: contents are borrowed.
// Units: bytes.
// Errors: FailedPrecondition "…: another content is there" (or nothing is) when
// the file is not as expected; those of the bucket. Unimplemented for paths,
// because file systems have no such call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Sets the content of the file to `content` if it is now `expected` (nullopt:
// if the file does not exist) and no other writer intervenes. `content` must
// differ from that of every other writer (contain an id): when the server's
// answer was lost and this content is found in place, this call wrote it, and
// it succeeds.
Status SwapFile(const Place& file, std::optional<std::string_view> expected,
                std::string_view content);

struct FileState {
  std::string content;
  int64_t modified_ns = 0;  // by the server's clock; 0: it did not say
  int64_t server_ns = 0;    // that clock when it answered; 0: it did not say
};
// Reads a small file in its current state, bypassing any Look. NotFound when
// missing; DataLoss when it is larger than 1 MiB.
Result<FileState> ReadFileState(const Place& file);

// Deletes the file if its content is `expected`. FailedPrecondition when the
// content differs; ok when the file is missing. Where the server has no
// conditional delete, a write between the check and the deletion is lost.
Status DeleteFileIf(const Place& file, std::string_view expected);

}  // namespace holdfast
