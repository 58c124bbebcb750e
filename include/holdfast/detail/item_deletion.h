// Deletes one item of a checkpoint with several, as Orbax's v1 does.
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

// The item of the checkpoint at `path` that is being deleted; nullopt if no
// deletion is in progress.
Result<std::optional<std::string>> FindItemDeletion(const std::string& path);

// Writes the record for `item`, with permissions `mode` on disk. AlreadyExists
// when a deletion is already in progress; InvalidArgument when
// `_CHECKPOINT_METADATA` does not list the item.
Status BeginItemDeletion(const std::string& path, const std::string& item,
                         std::optional<uint32_t> mode = std::nullopt);

// Removes the item's files, and the record last. Ok when no deletion is in
// progress.
Status FinishItemDeletion(const std::string& path);

// These check whether something may be deleted, without changing anything, and
// have Orbax's messages.
// InvalidArgument unless the name is one that a user's item can have.
Status CheckDeletableItem(const std::string& item);
// InvalidArgument for the root of a storage, and for links.
Status CheckDeletablePath(const std::string& path);
// FailedPrecondition unless the directory is a checkpoint or empty, and for a
// directory inside a checkpoint.
Status CheckDeletableCheckpoint(const std::string& path);
// FailedPrecondition for a checkpoint without named items, NotFound if it lacks
// this item, InvalidArgument for its only item and for links.
Status CheckDeletableItemOf(const std::string& path, const std::string& item);

}  // namespace holdfast
