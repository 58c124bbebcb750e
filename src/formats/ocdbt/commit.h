// Writes one generation of a database. Has the options and the last steps that
// a bulk write, a merge and an append share.
//
// Thread-safety: one thread per database. Ownership: borrows the store.
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

#include "formats/ocdbt/data_file_appender.h"
#include "formats/ocdbt/entry_list.h"
#include "formats/ocdbt/format/config.h"
#include "formats/ocdbt/format/manifest.h"
#include "formats/ocdbt/tree_builder.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

// Defaults are the values that Orbax passes to TensorStore.
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
  // If true, an existing manifest fails with AlreadyExists. If false, it is
  // replaced.
  bool must_create = true;
  // If true, everything is on stable storage when the write returns; data are
  // synced before the manifest.
  bool sync = true;
  // Set to false if no reader looks into the directory, or relies on it, before
  // the caller has made all names durable (Store::SyncNames). Then only bytes
  // are synced, and the manifest need not appear in one step.
  bool is_visible = true;
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
  std::vector<WrittenNode> nodes;  // places in the files of `entries`
  EntryList entries;               // for a merge into a parent
};

Status CheckBulkWriteOptions(const BulkWriteOptions& options,
                             std::string_view directory);
DataFileOptions MakeDataFileOptions(const BulkWriteOptions& options,
                                    std::string_view directory);

// Returns `Key "..." is given twice` for the first equal pair of sorted
// entries.
Status CheckKeysDiffer(const std::vector<LeafEntry>& entries);

// Returns `options.commit_time_ns`, or the current time.
uint64_t CommitTimeNs(const BulkWriteOptions& options);

// Writes the nodes for `list` (sorted) through `appender`, or no node if the
// list is empty.
Result<BuiltTree> WriteTree(const BulkWriteOptions& options,
                            DataFileAppender& appender, const EntryList& list);

// Adds an entry to `manifest.versions`, and the file of its root to
// `manifest.files`. `files` is the table that the tree's root refers to.
void AddVersion(uint64_t generation, uint64_t commit_time_ns,
                const BuiltTree& tree, const DataFileTable& files,
                Manifest& manifest);

// Syncs data and names if `options.sync` is set, then writes the manifest in
// the way that `options.is_visible` asks for. If there is a manifest already,
// fails with AlreadyExists if `must_create` is true, and replaces the manifest
// otherwise. Returns the size of the manifest.
Result<uint64_t> PublishManifest(Store* store, const std::string& directory,
                                 const BulkWriteOptions& options,
                                 const Manifest& manifest, bool must_create);

// Counts what was written. Consumes the list.
BulkWriteSummary Summarize(const BuiltTree& tree,
                           std::vector<WrittenFile> files,
                           uint64_t manifest_byte_count, EntryList& list);

// Commits the first generation: writes the nodes for `list` (sorted) through
// `appender`, finishes the data files, then writes the manifest. `appender`
// extends list.files.
Result<BulkWriteSummary> CommitEntries(Store* store,
                                       const std::string& directory,
                                       const BulkWriteOptions& options,
                                       DataFileAppender& appender,
                                       EntryList& list);

}  // namespace holdfast::ocdbt
