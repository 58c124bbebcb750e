// Files that others leave where a checkpoint is written: TypeHandlers in an
// item's directory (SaveOptions::adopt_existing), callers of PendingSave
// anywhere. Found, kept, made durable, and checksummed.
//
// Thread-safety: one thread a directory. Ownership: borrows stores.
// Errors: DataLoss for files that cannot be understood, those of the store.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/commit/file_writer.h"
#include "engine/format/array_metadatas.h"
#include "engine/format/digest_file.h"
#include "engine/format/sharding_file.h"
#include "engine/format/strings_file.h"
#include "formats/ocdbt/merge.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

struct AdoptedFiles {
  std::vector<std::string> databases;  // "ocdbt.process_0/", sorted
  StringsFile strings;
  ShardingFile shardings;
  std::vector<ArrayMetadataRecord> array_metadatas;
};

// "ocdbt.process_0/" and the like, sorted: those that hold a manifest.
Result<std::vector<std::string>> FindProcessDatabases(Store& store);

// As process `rank` sees them: its own array metadata.
Result<AdoptedFiles> ReadAdoptedFiles(Store& store, int64_t rank = 0);

// The entries of the database at `prefix` ("" or ending in '/'), ready to be
// merged.
Result<ocdbt::MergeChild> ReadDatabase(Store& store, const std::string& prefix);

// Adds them of each to `children`. Unless `digests` is null it gets the
// checksums of the manifests and of every value that is not in line, which are
// read for it.
Status AddAdoptedDatabases(Store& store,
                           const std::vector<std::string>& prefixes,
                           DigestFile* digests,
                           std::vector<ocdbt::MergeChild>& children);

// Which files of a directory are others' own affair, by paths in it.
struct AdoptRules {
  // Listed and synced already, or neither is wanted.
  std::function<bool(const std::string& path)> is_known;
  // Synced, but not listed. May be empty.
  std::function<bool(const std::string& path)> is_unlisted;
  // Directories that are durable but for the files adopted in them. May be
  // empty.
  std::function<bool(const std::string& path)> is_synced;
  bool has_arrays = false;  // chunks of bare zarr arrays are listed as values
};

// Those of an item's directory: all is adopted that `files` does not list, but
// what Orbax and holdfast write at the root of a checkpoint, and with
// `use_ocdbt` databases, is not listed.
AdoptRules RulesOfItem(bool use_ocdbt, const FileWriter& files);

// Files that came into `directory` without `files`, its writer: made durable
// where that syncs, and listed there with `write_digests`.
Status AdoptFiles(const Place& directory, bool write_digests,
                  const AdoptRules& rules, FileWriter& files);

// True for data files and nodes, whose bytes have rows or checksums of their
// own.
bool IsDatabaseFile(std::string_view path);

// The path of every row, behind `prefix`.
void AddListedPaths(const DigestFile& digests, const std::string& prefix,
                    std::set<std::string>& paths);

}  // namespace holdfast
