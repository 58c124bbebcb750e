// Appending to a database: keys are added or replaced as one more generation.
//
// New values and B+tree nodes go to new data files; what stays is referred to
// where it lies; the manifest is replaced last, atomically. Older generations
// stay readable. Where there is no database yet, one is made.
//
// Thread-safety: one writer a database at a time. Ownership: borrows the store,
// keys and values. Units: bytes. Cost: reads the whole B+tree and writes it
// anew; no old value is read or written.
// Errors: those of Database and commit.h; InvalidArgument for a key that is too
// long or given twice; Unimplemented for numbered manifests. After any failure
// the database is as it was: at its old generation, or absent.
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

// A value of one piece.
AppendEntry BorrowEntry(std::string_view key, std::string_view value);

// `directory` is "" or ends in '/'. Old keys for which `is_removed` is true
// (absent: none) are dropped before `entries` come in. The configuration of
// an existing database stays in force: of `options` only sync, the data files
// and the time count then.
Result<BulkWriteSummary> AppendEntries(
    Store* store, const std::string& directory,
    std::span<const AppendEntry> entries, const BulkWriteOptions& options,
    const std::function<bool(std::string_view key)>& is_removed = {},
    const CancelToken* cancel = nullptr);

}  // namespace holdfast::ocdbt
