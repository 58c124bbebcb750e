// What TypeHandlers left in an item's directory before the item is written
// there (SaveOptions::adopt_existing): found, kept, and checksummed.
//
// Thread-safety: one thread a directory. Ownership: borrows stores.
// Errors: DataLoss for files that cannot be understood, those of the store.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/commit/file_writer.h"
#include "checkpoint/format/array_metadatas.h"
#include "checkpoint/format/digest_file.h"
#include "checkpoint/format/sharding_file.h"
#include "checkpoint/format/strings_file.h"
#include "ocdbt/merge.h"
#include "storage/store.h"

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

// The entries of the database at `prefix`, ready to be merged. Unless `digests`
// is null it gets the checksums of the manifest and of every value that is not
// in line, which are read for it.
Result<ocdbt::MergeChild> ReadAdoptedDatabase(Store& store,
                                              const std::string& prefix,
                                              DigestFile* digests);

// Syncs all files in `directory` that `files` does not list, and lists them if
// `write_digests`; what Orbax and holdfast write at the root of a checkpoint
// excepted. `use_ocdbt`: directories of databases are not listed.
Status AdoptFiles(const std::string& directory, bool use_ocdbt,
                  bool write_digests, FileWriter& files);

}  // namespace holdfast
