// Rebuilds a damaged database from its remains.
//
// Evidence, best first: the newest generation that the database's own manifest
// names, as far as its nodes can be read; the processes' databases
// (`ocdbt.process_N`) from which it was merged; and unreferenced nodes that a
// scan of all data files finds. A key gets its value from the best evidence for
// it. If pieces of equally good evidence contradict each other, the key is left
// out, because it is unknown which value is newer.
// The keys of a node below a lost root lack the common prefix that the root
// stored. So a node found by the scan is treated as a root only if its keys
// name known arrays. If no arrays are known, it is treated as a root only at
// the end of a data file, where a writer puts the root.
//
// Thread-safety: one thread per call. Units: bytes. Memory: all keys, and all
// values that are stored inline. Ownership: borrows the stores for the call.
// Errors: Cancelled, ResourceExhausted. Damage is expected, and is reported in
// the notes.
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
  Store* files = nullptr;  // the item's directory, as it is
  // The same directory, but reads fail for nodes that differ from what was
  // saved (CheckedStore). May be equal to `files`.
  Store* checked = nullptr;
  // Names of the item's arrays; empty if they are not known.
  std::vector<std::string> array_names;
};

struct RepairedDatabase {
  // `manifest.ocdbt`, and a data file of nodes; null if no key was found.
  std::unique_ptr<MemoryStore> files;
  uint64_t key_count = 0;
  std::vector<std::string> notes;
};

// Returns nullopt if the database can be read as it is.
Result<std::optional<RepairedDatabase>> RepairDatabase(
    const DatabaseEvidence& evidence, const CancelToken* cancel = nullptr);

}  // namespace holdfast
