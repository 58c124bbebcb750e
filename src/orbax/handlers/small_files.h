// The JSON files of an item that handlers add to: old entries stay, and the new
// file replaces the old one in one step.
//
// Thread-safety: one writer a directory. Ownership: borrows the store. Errors:
// DataLoss for a file that cannot be understood, or that differs from its
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

// NotFound when there is no file.
Result<StringsFile> ReadStrings(const CheckedFiles& files,
                                const std::string& filename);
Status AddStrings(Store& store, const std::string& filename,
                  const StringsFile& strings);

// NotFound when there is no file.
Result<ShardingFile> ReadShardings(const CheckedFiles& files);
Status AddShardings(Store& store, const ShardingFile& shardings);

// Empty when there is no file.
Result<std::vector<ArrayMetadataRecord>> ReadArrayMetadataRecords(
    const CheckedFiles& files);
// Existing records stay, those of the same parameters too: as in Orbax the
// later one counts.
Status AddArrayMetadataRecords(Store& store,
                               std::vector<ArrayMetadataRecord> records,
                               int64_t process = 0);

}  // namespace holdfast
