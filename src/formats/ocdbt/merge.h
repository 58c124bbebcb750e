// Merges databases in subdirectories into one parent that refers to their
// values, as Orbax does after a save by several processes.
//
// The parent gets generation 1 and its own nodes. Inline values are copied;
// those above the parent's limit go to the parent's data file. Other values
// stay where they are, so the subdirectories must stay, too.
//
// Thread-safety: one thread per parent. Ownership: borrows the store; consumes
// entry lists. Units: bytes.
// Errors: those of Database and commit.h; InvalidArgument for a key that two
// children have, with the names of both children.
#pragma once

#include <string>
#include <vector>

#include "formats/ocdbt/commit.h"
#include "formats/ocdbt/entry_list.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

struct MergeChild {
  // Path from the parent's directory, ending in '/', e.g. "ocdbt.process_0/".
  // Empty means the parent's own entries, which are replaced.
  std::string subdirectory;
  EntryList entries;
};

Result<BulkWriteSummary> MergeEntries(Store* store,
                                      const std::string& directory,
                                      std::vector<MergeChild> children,
                                      const BulkWriteOptions& options);

}  // namespace holdfast::ocdbt
