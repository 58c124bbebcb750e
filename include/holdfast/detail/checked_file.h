// Reads one file of a checkpoint, for readers of files that hold no arrays:
// JSON documents, texts, tables.
//
// Thread-safety: any thread. Ownership: none.
// Errors: DataLoss for a file that differs from its entry in
// `_HOLDFAST_DIGESTS` (in its directory or any parent up to the checkpoint's),
// or that is listed there and missing; NotFound, and those of the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// The complete file at `path`, a path or URL. A file that is in no list is read
// without a check.
Result<std::string> ReadCheckedFile(const std::string& path);

// Removes `item`, a directory that is being deleted, from the list of checksums
// of the checkpoint at `path`, and lists `metadata` as its
// `_CHECKPOINT_METADATA`. With nullopt that file is not listed, for the time in
// which it is replaced. A list that cannot be read is removed, as it vouches
// for nothing. Durable; ok without a list.
Status ForgetListedItem(const std::string& path, const std::string& item,
                        std::optional<std::string_view> metadata);

}  // namespace holdfast
