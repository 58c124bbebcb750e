// Writing the first and only generation of a new database: options, and the
// last steps that a bulk write and a merge have in common.
//
// Thread-safety: one thread a database. Ownership: borrows the store.
// Units: bytes; nanoseconds since 1970-01-01 UTC.
// Errors: InvalidArgument for options out of range, keys that are too long or
// given twice; AlreadyExists if the directory has a manifest; those of the
// store.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "ocdbt/data_file_appender.h"
#include "ocdbt/entry_list.h"
#include "ocdbt/format/config.h"
#include "storage/store.h"

namespace holdfast::ocdbt {

// Defaults are what Orbax gives to TensorStore.
struct BulkWriteOptions {
  std::optional<Uuid> uuid;  // default: random
  uint32_t max_inline_value_bytes = 1024;
  uint32_t max_decoded_node_bytes = 100000000;  // 0: no limit
  uint8_t version_tree_arity_log2 = 4;
  bool compress_nodes = true;
  // A data file is closed when it has this many bytes; 0 means no limit.
  int64_t target_data_file_bytes = 2147483648;
  std::string data_prefix = "d/";
  uint64_t commit_time_ns = 0;  // 0: now
  // 32 hex digits, different each time. Default: random.
  std::function<std::string()> new_file_name;
  // Everything is on stable storage when the write returns; the data before
  // the manifest.
  bool sync = true;
};

struct BulkWriteSummary {
  uint64_t key_count = 0;
  uint64_t inline_value_byte_count = 0;
  uint64_t indirect_value_byte_count = 0;
  uint64_t node_count = 0;
  uint64_t node_byte_count = 0;  // encoded
  uint8_t tree_height = 0;
  uint64_t manifest_byte_count = 0;
  std::vector<WrittenFile> files;
  EntryList entries;  // for a merge into a parent
};

Status CheckBulkWriteOptions(const BulkWriteOptions& options,
                             std::string_view directory);
DataFileOptions MakeDataFileOptions(const BulkWriteOptions& options,
                                    std::string_view directory);

// `Key "..." is given twice` for the first equal pair of sorted entries.
Status CheckKeysDiffer(const std::vector<LeafEntry>& entries);

// Writes the nodes for `list` (sorted) through `appender`, finishes the data
// files, then writes the manifest. `appender` extends list.files.
Result<BulkWriteSummary> CommitEntries(Store* store,
                                       const std::string& directory,
                                       const BulkWriteOptions& options,
                                       DataFileAppender& appender,
                                       EntryList& list);

}  // namespace holdfast::ocdbt
