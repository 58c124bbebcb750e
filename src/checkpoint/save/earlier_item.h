// Making room for an item in a directory that may hold an earlier one.
//
// Removes the files by which the earlier item would be found, or that would
// speak of the new one's values. Data files stay.
// Thread-safety: one thread a directory. Errors: those of the store.
#pragma once

#include <cstdint>
#include <string>

#include "storage/store.h"

namespace holdfast {

// What one process leaves for all: not what is adopted.
Status RemoveEarlierItem(bool adopt_existing, Store& store);

// What each process has of its own: array metadata and the database in
// `process_directory` ("ocdbt.process_0").
Status RemoveEarlierPart(const std::string& process_directory, int64_t rank,
                         Store& store);

}  // namespace holdfast
