// Deleting one item of a checkpoint of several, as Orbax's v1 does it.
//
// A record in the checkpoint, `_CHECKPOINT_DELETION`, is written first: from
// then on readers do not see the item. It lies there until the item's files are
// gone and `_CHECKPOINT_METADATA` no longer lists the item, so that whoever
// finds it can finish a deletion that was cut off.
//
//   BeginItemDeletion("/run/7", "optimizer");
//   FinishItemDeletion("/run/7");
//
// Thread-safety: any thread; one deletion at a time in a checkpoint.
// Errors: FailedPrecondition "Invalid deletion record at ..." for a record that
// says nothing that could be done; those of the place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// The item of the checkpoint at `path` that is being deleted; nullopt when none
// is.
Result<std::optional<std::string>> FindItemDeletion(const std::string& path);

// Writes the record of `item`, with permissions `mode` on disk. AlreadyExists
// when something is being deleted already; InvalidArgument when
// `_CHECKPOINT_METADATA` does not list the item.
Status BeginItemDeletion(const std::string& path, const std::string& item,
                         std::optional<uint32_t> mode = std::nullopt);

// Removes the item's files, and last of all the record. Ok when nothing is
// being deleted.
Status FinishItemDeletion(const std::string& path);

// Checks whether something may be deleted; nothing is changed. In Orbax's
// words:
// InvalidArgument unless it is a name that one of the user's items can have.
Status CheckDeletableItem(const std::string& item);
// InvalidArgument for the root of a storage, and for links.
Status CheckDeletablePath(const std::string& path);
// FailedPrecondition unless the directory is a checkpoint or empty, and for a
// part of a checkpoint.
Status CheckDeletableCheckpoint(const std::string& path);
// FailedPrecondition for a checkpoint without named items, NotFound without
// this one, InvalidArgument for the only one and for links.
Status CheckDeletableItemOf(const std::string& path, const std::string& item);

}  // namespace holdfast
