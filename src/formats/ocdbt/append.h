// Appends to a database: adds or replaces keys in one new generation.
//
// New values and B+tree nodes go to new data files. Unchanged values are
// referenced where they are. The manifest is replaced last, atomically, and
// older generations stay readable. If there is no database yet, a new one is
// created.
//
// Thread-safety: one writer per database at a time. Ownership: borrows the
// store, keys and values. Units: bytes. Cost: reads and rewrites the complete
// B+tree; no old value is read or written.
// Errors: those of Database and commit.h; InvalidArgument for a key that is too
// long or given twice; Unimplemented for numbered manifests. After any failure
// the database is unchanged: at its old generation, or absent.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "formats/codec/codec.h"
#include "formats/ocdbt/commit.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

struct AppendEntry {
  std::string_view key;
  EncodedChunk value;
};

// Returns an entry whose value is one piece.
AppendEntry BorrowEntry(std::string_view key, std::string_view value);

// `directory` is "" or ends in '/'. Old keys for which `is_removed` is true are
// dropped before `entries` are added; without `is_removed`, none are. An
// existing database keeps its configuration: only sync, the data files and the
// time are then used from `options`.
Result<BulkWriteSummary> AppendEntries(
    Store* store, const std::string& directory,
    std::span<const AppendEntry> entries, const BulkWriteOptions& options,
    const std::function<bool(std::string_view key)>& is_removed = {},
    const CancelToken* cancel = nullptr);

}  // namespace holdfast::ocdbt
