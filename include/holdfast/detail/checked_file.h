// One file of a checkpoint, for readers of files that hold no arrays: JSON
// documents, texts, tables.
//
// Thread-safety: any thread. Ownership: none.
// Errors: DataLoss for a file that differs from what `_HOLDFAST_DIGESTS`, of
// its directory or of one above it up to the checkpoint's, says of it, or that
// is listed there and gone; NotFound, and those of the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// The whole of the file at `path`, a path or URL. A file that no list has is
// read as it is.
Result<std::string> ReadCheckedFile(const std::string& path);

// Takes `item`, a directory that is removed, out of the list of the checkpoint
// at `path`, and lists `metadata` as its `_CHECKPOINT_METADATA`; nullopt: lists
// none, for the time in which that file is replaced. A list that cannot be
// read, which vouches for nothing, is removed. Durable; ok without a list.
Status ForgetListedItem(const std::string& path, const std::string& item,
                        std::optional<std::string_view> metadata);

}  // namespace holdfast
