// Deletes one item of a checkpoint that has several items, as Orbax v1 does.
//
// A record in the checkpoint, `_CHECKPOINT_DELETION`, is written first: from
// then on readers do not see the item. The record exists until the item's files
// are removed and `_CHECKPOINT_METADATA` no longer lists the item, so that any
// process that finds it can finish an interrupted deletion.
//
//   BeginItemDeletion("/run/7", "optimizer");
//   FinishItemDeletion("/run/7");
//
// Thread-safety: any thread; one deletion at a time per checkpoint.
// Errors: FailedPrecondition "Invalid deletion record at ..." for a record that
// cannot be carried out; those of the file system or store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// Returns the item of the checkpoint at `path` that is being deleted; nullopt
// if no deletion is in progress.
Result<std::optional<std::string>> FindItemDeletion(const std::string& path);

// Writes the record for `item`, with permissions `mode` on disk. AlreadyExists
// when a deletion is already in progress; InvalidArgument when
// `_CHECKPOINT_METADATA` does not list the item.
Status BeginItemDeletion(const std::string& path, const std::string& item,
                         std::optional<uint32_t> mode = std::nullopt);

// Removes the item's files, and the record last. Ok when no deletion is in
// progress.
Status FinishItemDeletion(const std::string& path);

// The functions below check whether something may be deleted. They change
// nothing, and fail with Orbax's messages.
//
// Fails with InvalidArgument unless a user's item can have this name.
Status CheckDeletableItem(const std::string& item);
// Fails with InvalidArgument for the root of a storage, and for links.
Status CheckDeletablePath(const std::string& path);
// Fails with FailedPrecondition if the directory is neither a checkpoint nor
// empty, or is inside a checkpoint.
Status CheckDeletableCheckpoint(const std::string& path);
// Fails with FailedPrecondition for a checkpoint without named items, NotFound
// if it lacks this item, InvalidArgument if this is its only item, and for
// links.
Status CheckDeletableItemOf(const std::string& path, const std::string& item);

}  // namespace holdfast
