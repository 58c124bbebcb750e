#include "formats/ocdbt/merge.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/ocdbt/format/limits.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

bool HasKey(const EntryList& list, std::string_view key) {
  const auto found = std::lower_bound(
      list.entries.begin(), list.entries.end(), key,
      [](const LeafEntry& entry, std::string_view k) { return entry.key < k; });
  return found != list.entries.end() && found->key == key;
}

Status DuplicateKey(const std::vector<MergeChild>& children,
                    std::string_view key) {
  std::string names;
  for (const MergeChild& child : children) {
    if (!HasKey(child.entries, key)) continue;
    names += (names.empty() ? "\"" : " and \"") + child.subdirectory + '"';
  }
  return InvalidArgumentError("Key \"" + std::string(key) +
                              "\" is in more than one database: " + names);
}

Status CheckMergedKeysDiffer(const std::vector<MergeChild>& children,
                             const std::vector<LeafEntry>& entries) {
  const auto found = std::adjacent_find(
      entries.begin(), entries.end(),
      [](const LeafEntry& a, const LeafEntry& b) { return a.key == b.key; });
  if (found == entries.end()) return Status();
  return DuplicateKey(children, found->key);
}

// Prefixes each base path with the path from parent to child.
Status AppendFiles(const MergeChild& child, DataFileTable& files) {
  const std::string& subdirectory = child.subdirectory;
  for (const DataFile& file : child.entries.files) {
    const size_t byte_count = subdirectory.size() + file.path.size();
    if (byte_count > kPathBytesMax) {
      return InvalidArgumentError(
          "Data file path of " + std::to_string(byte_count) +
          " bytes exceeds limit of 65535, below \"" + subdirectory + '"');
    }
    files.push_back(
        {subdirectory + file.path, subdirectory.size() + file.base_byte_count});
  }
  return Status();
}

// Joins all children in one sorted list, with file indices of the parent's
// table.
Result<EntryList> Join(const std::vector<MergeChild>& children) {
  EntryList joined;
  size_t entry_count = 0;
  for (const MergeChild& child : children) {
    entry_count += child.entries.entries.size();
  }
  joined.entries.reserve(entry_count);
  for (const MergeChild& child : children) {
    const EntryList& list = child.entries;
    // File indices of a child start at the child's own first file.
    const auto first_file = static_cast<uint32_t>(joined.files.size());
    HF_RETURN_IF_ERROR(AppendFiles(child, joined.files));
    for (LeafEntry entry : list.entries) {
      if (!entry.is_inline()) entry.file_index += first_file;
      joined.entries.push_back(entry);
    }
    joined.owners.insert(joined.owners.end(), list.owners.begin(),
                         list.owners.end());
  }
  SortByKey(joined.entries);
  HF_RETURN_IF_ERROR(CheckMergedKeysDiffer(children, joined.entries));
  return joined;
}

Status WriteOutLongValues(uint64_t inline_bytes_max, DataFileAppender& appender,
                          std::vector<LeafEntry>& entries) {
  for (LeafEntry& entry : entries) {
    // A child may have a larger limit for inline values than the parent.
    if (!entry.is_inline() || entry.value_byte_count <= inline_bytes_max) {
      continue;
    }
    const std::string_view value = entry.inline_value();
    const Reference place = appender.Place(value.size());
    HF_RETURN_IF_ERROR(appender.Write(place, {&value, 1}));
    entry.SetIndirect(place);
  }
  return Status();
}

}  // namespace

Result<BulkWriteSummary> MergeEntries(Store* store,
                                      const std::string& directory,
                                      std::vector<MergeChild> children,
                                      const BulkWriteOptions& options) {
  HF_RETURN_IF_ERROR(CheckBulkWriteOptions(options, directory));
  for (const MergeChild& child : children) {
    if (child.subdirectory.empty() || child.subdirectory.ends_with('/')) {
      continue;
    }
    return InvalidArgumentError("OCDBT subdirectory \"" + child.subdirectory +
                                "\" must end in '/'");
  }
  HF_ASSIGN_OR_RETURN(EntryList joined, Join(children));
  // Frees the lists; `joined` shares the owners of their keys and values.
  children.clear();
  DataFileAppender appender(store, MakeDataFileOptions(options, directory),
                            &joined.files);
  HF_RETURN_IF_ERROR(WriteOutLongValues(options.max_inline_value_bytes,
                                        appender, joined.entries));
  return CommitEntries(store, directory, options, appender, joined);
}

}  // namespace holdfast::ocdbt
