// EntryList: all keys of one database, with their values or the places of their
// values, so that a merge does not need to read them again.
//
// Thread-safety: a value; one owner at a time. Ownership: keys and inline
// values are views of memory that `owners` keep alive. Units: bytes.
// Errors: those of Database for ReadAllEntries.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/ocdbt/database.h"
#include "formats/ocdbt/format/btree_node.h"
#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

// Memory for many small pieces with the same lifetime.
class TextArena {
 public:
  // Allocates `byte_count` bytes that do not move.
  char* Allocate(size_t byte_count);
  std::string_view Copy(std::string_view text);

 private:
  std::vector<Buffer> chunks_;
  char* next_ = nullptr;
  size_t room_ = 0;
};

struct EntryList {
  std::vector<LeafEntry> entries;  // increasing keys
  DataFileTable files;             // paths relative to the database's directory
  std::vector<std::shared_ptr<const void>> owners;
};

// Returns the entries of the generation at which `database` is open.
Result<EntryList> ReadAllEntries(Database& database,
                                 const CancelToken* cancel = nullptr);

// Sorts by key, bytewise.
void SortByKey(std::vector<LeafEntry>& entries);

}  // namespace holdfast::ocdbt
