// SwapFile: compare and swap on the content of a file in an object store.
// Writers that know nothing of each other agree by it.
//
// Thread-safety: any thread, any process. Ownership: contents are borrowed.
// Units: bytes.
// Errors: FailedPrecondition "…: another content is there" (or nothing is)
// where the file is not as expected; those of the bucket. Unimplemented for
// paths, whose file systems have no such call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Makes `content` the content of the file `path` if it is `expected` now
// (nullopt: if there is no file) and no other writer comes between. `content`
// must differ from any other writer's (have an id in it): when the server's
// answer was lost and this content is found in place, it is ours, and the call
// succeeds.
Status SwapFile(const Place& file, std::optional<std::string_view> expected,
                std::string_view content);

struct FileState {
  std::string content;
  int64_t modified_ns = 0;  // by the server's clock; 0: it did not say
  int64_t server_ns = 0;    // that clock when it answered; 0: it did not say
};
// A small file as it is now; no Look answers. NotFound when missing; DataLoss
// when it is larger than 1 MiB.
Result<FileState> ReadFileState(const Place& file);

// Deletes the file if its content is `expected`. FailedPrecondition when it is
// another; ok when it is missing. Where the server cannot delete on a
// condition, a write between the look and the deletion is lost.
Status DeleteFileIf(const Place& file, std::string_view expected);

}  // namespace holdfast
