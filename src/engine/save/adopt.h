// Adopts files that others leave where a checkpoint is being written:
// TypeHandlers in an item's directory (SaveOptions::adopt_existing), and
// callers of PendingSave anywhere in it. The files are found, kept, made
// durable, and checksummed.
//
// Thread-safety: one thread per directory. Ownership: borrows stores.
// Errors: DataLoss for files that cannot be parsed, those of the store.
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

// Returns the process databases that have a manifest ("ocdbt.process_0/" and
// the like), sorted.
Result<std::vector<std::string>> FindProcessDatabases(Store& store);

// Reads the files as process `rank` sees them, with only its own array
// metadata.
Result<AdoptedFiles> ReadAdoptedFiles(Store& store, int64_t rank = 0);

// Reads the entries of the database at `prefix` ("" or ending in '/'), ready to
// be merged.
Result<ocdbt::MergeChild> ReadDatabase(Store& store, const std::string& prefix);

// Adds the entries of each database to `children`. A non-null `digests` also
// gets the checksums of the manifests, and of every value that is not stored
// inline, which is read for this purpose.
Status AddAdoptedDatabases(Store& store,
                           const std::vector<std::string>& prefixes,
                           DigestFile* digests,
                           std::vector<ocdbt::MergeChild>& children);

// Which files of a directory need no adoption, by their paths in it.
struct AdoptRules {
  // Files that are already listed and synced, or need neither.
  std::function<bool(const std::string& path)> is_known;
  // Files that are synced but not listed. May be empty.
  std::function<bool(const std::string& path)> is_unlisted;
  // Directories that are durable except for the files adopted in them. May be
  // empty.
  std::function<bool(const std::string& path)> is_synced;
  bool has_arrays = false;  // chunks of bare zarr arrays are listed as values
};

// Returns the rules for an item's directory, which adopt every file that
// `files` does not list. They do not list the files that Orbax and holdfast
// write at the root of a checkpoint, nor, with `use_ocdbt`, databases.
AdoptRules RulesOfItem(bool use_ocdbt, const FileWriter& files);

// Adopts the files in `directory` that its writer `files` did not write. Makes
// them durable if the writer syncs, and with `write_digests` lists them in it.
Status AdoptFiles(const Place& directory, bool write_digests,
                  const AdoptRules& rules, FileWriter& files);

// Returns true for data files and nodes, whose bytes already have digest rows
// or checksums.
bool IsDatabaseFile(std::string_view path);

// Adds the path of every row, prefixed with `prefix`.
void AddListedPaths(const DigestFile& digests, const std::string& prefix,
                    std::set<std::string>& paths);

}  // namespace holdfast
