// The JSON files of an item to which handlers add entries. Old entries are
// kept, and the new file replaces the old one in one step.
//
// Thread-safety: one writer per directory. Ownership: borrows the store.
// Errors: DataLoss for a file that cannot be parsed, or that differs from its
// checksum in the item's lists, naming it; those of the store.
#pragma once

#include <string>
#include <vector>

#include "engine/check/checked_files.h"
#include "engine/format/array_metadatas.h"
#include "engine/format/sharding_file.h"
#include "engine/format/strings_file.h"
#include "stores/storage/store.h"

namespace holdfast {

// Returns the strings by parameter. NotFound if the file does not exist.
Result<StringsFile> ReadStrings(const CheckedFiles& files,
                                const std::string& filename);
Status AddStrings(Store& store, const std::string& filename,
                  const StringsFile& strings);

// Returns the recorded shardings. NotFound if the file does not exist.
Result<ShardingFile> ReadShardings(const CheckedFiles& files);
Status AddShardings(Store& store, const ShardingFile& shardings);

// Returns the records of all arrays; none if the file does not exist.
Result<std::vector<ArrayMetadataRecord>> ReadArrayMetadataRecords(
    const CheckedFiles& files);
// Adds records after the existing ones, even if they are for the same
// parameters. As in Orbax, the later record counts.
Status AddArrayMetadataRecords(Store& store,
                               std::vector<ArrayMetadataRecord> records,
                               int64_t process = 0);

}  // namespace holdfast
