// A database put together again from what is left of it.
//
// Evidence, best first: the newest generation that the database's own manifest
// names, as far as its nodes can be read; those of the databases of the
// processes (`ocdbt.process_N`), which the merged one was made of; and nodes
// that a scan of all data files finds and that nobody refers to any more. A key
// has the value of the best evidence for it. Where equally good evidence
// contradicts itself, the key is left out: which value is newer cannot be told.
// The keys of a node below a root that is lost lack what the root says all of
// them begin with. So a node that a scan found is a root only if its keys name
// known arrays; where none are known, if a writer would have put a root there:
// at the end of a data file.
//
// Thread-safety: one thread a call. Units: bytes. Memory: all keys, and what of
// their values is in line. Ownership: borrows the stores for the call.
// Errors: Cancelled, ResourceExhausted; damage is what this is for, and in the
// notes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "stores/storage/memory_store.h"
#include "stores/storage/store.h"

namespace holdfast {

struct DatabaseEvidence {
  Store* files = nullptr;  // of the item's directory, as they are
  // The same, whose nodes are those that were saved (CheckedStore), or `files`.
  Store* checked = nullptr;
  // Names of the arrays that the item has; empty: not known.
  std::vector<std::string> array_names;
};

struct RepairedDatabase {
  // `manifest.ocdbt`, and a data file of nodes; null when no key was found.
  std::unique_ptr<MemoryStore> files;
  uint64_t key_count = 0;
  std::vector<std::string> notes;
};

// Nullopt when the database can be read as it is.
Result<std::optional<RepairedDatabase>> RepairDatabase(
    const DatabaseEvidence& evidence, const CancelToken* cancel = nullptr);

}  // namespace holdfast
