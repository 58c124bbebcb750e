// Reads one file of a checkpoint and checks it. For files that do not hold
// arrays: JSON documents, text, tables.
//
// Thread-safety: any thread. Ownership: none.
// Errors: DataLoss for a file that differs from its entry in
// `_HOLDFAST_DIGESTS` (in its directory or any parent up to the checkpoint's),
// or that is listed there but missing; NotFound; those of the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// Returns the complete file at `path`, a path or URL. A file that no
// `_HOLDFAST_DIGESTS` lists is read without a check.
Result<std::string> ReadCheckedFile(const std::string& path);

// Updates the list of checksums of the checkpoint at `path`, durably. Removes
// the entries of `item`, a directory that is being deleted, and lists
// `metadata` as the content of `_CHECKPOINT_METADATA`. If `metadata` is
// nullopt, that file is no longer listed, so that it can be replaced. A list
// that cannot be read is removed, because nothing can be checked against it. Ok
// if no list exists.
Status ForgetListedItem(const std::string& path, const std::string& item,
                        std::optional<std::string_view> metadata);

}  // namespace holdfast
