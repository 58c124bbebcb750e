// SwapFile: compares and swaps the content of a file in an object store.
// Independent writers use it to coordinate.
//
// Thread-safety: any thread, any process. Ownership: contents are borrowed.
// Units: bytes.
// Errors: FailedPrecondition ("…: another content is there" or "nothing is
// there") when the file is not as expected; those of the bucket. Unimplemented
// for paths, because file systems have no such call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Sets the content of the file to `content` if it is now `expected` and no
// other writer intervenes. A nullopt `expected` means that the file must not
// exist.
//
// `content` must differ from that of every other writer, for example by an id.
// If the server's answer is lost and the file is found to have this content,
// then this call has written it and succeeds.
Status SwapFile(const Place& file, std::optional<std::string_view> expected,
                std::string_view content);

struct FileState {
  std::string content;
  int64_t modified_ns = 0;  // by the server's clock; 0 if unknown
  int64_t server_ns = 0;    // the server's clock at its answer; 0 if unknown
};
// Reads the current state of a small file, bypassing any Look. NotFound if it
// is missing; DataLoss if it is larger than 1 MiB.
Result<FileState> ReadFileState(const Place& file);

// Deletes the file if its content is `expected`. FailedPrecondition if the
// content differs; ok if the file is missing. If the server has no conditional
// delete, a write between the check and the deletion is lost.
Status DeleteFileIf(const Place& file, std::string_view expected);

}  // namespace holdfast
