// Databases in memory for tests: loading golden ones, writing small ones.
// Thread-safety: pure functions. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/ocdbt/bulk_writer.h"
#include "formats/ocdbt/database.h"
#include "formats/ocdbt/merge.h"
#include "ground/base/status_macros.h"
#include "stores/storage/memory_store.h"

namespace holdfast::ocdbt {

using Items = std::map<std::string, std::string>;

inline void Set(Store& store, const std::string& key, std::string_view value) {
  ASSERT_TRUE(store.Write(key, value).ok()) << key;
}

// Returns all objects of a store.
inline Items Contents(Store& store) {
  Items contents;
  const Status status =
      store.List("", [&](std::string_view key, const ObjectInfo&) {
        contents[std::string(key)] = store.Read(key)->ToString();
        return Status();
      });
  EXPECT_TRUE(status.ok());
  return contents;
}

inline std::unique_ptr<MemoryStore> StoreOf(const Items& contents) {
  auto store = std::make_unique<MemoryStore>();
  for (const auto& [key, value] : contents) Set(*store, key, value);
  return store;
}

// Returns the files below `directory` of the golden databases.
inline std::unique_ptr<MemoryStore> LoadGolden(const std::string& directory) {
  const std::filesystem::path root =
      std::filesystem::path(HOLDFAST_SOURCE_DIR) / "tests/golden/ocdbt" /
      directory;
  Items contents;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    contents[entry.path().lexically_relative(root).string()] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  return StoreOf(contents);
}

// Returns the keys and values of the generation at which `database` is open.
inline Result<Items> ReadItems(Database& database) {
  Items items;
  HF_RETURN_IF_ERROR(database.ForEach(
      "", "", "", [&](std::string_view key, const ValueRef& value) {
        if (value.is_inline) {
          items[std::string(key)] = value.inline_value;
          return Status();
        }
        HF_ASSIGN_OR_RETURN(const Bytes bytes,
                            ReadFileRange(*database.store(), value.file,
                                          value.offset, value.byte_count));
        items[std::string(key)] = bytes.ToString();
        return Status();
      }));
  return items;
}

inline Result<Items> ReadItems(Store& store,
                               const std::string& directory = "") {
  HF_ASSIGN_OR_RETURN(const auto database, Database::Open(&store, directory));
  HF_RETURN_IF_ERROR(database->CheckAll());
  return ReadItems(*database);
}

// Returns a chunk that borrows `value`.
inline EncodedChunk Chunk(std::string_view value) {
  EncodedChunk chunk;
  chunk.pieces = {value};
  chunk.byte_count = value.size();
  return chunk;
}

// Returns options that give the same bytes each time. Each copy has its own
// counter.
inline BulkWriteOptions FixedOptions(char name_digit = 'a') {
  BulkWriteOptions options;
  options.uuid = Uuid{1, 2, 3};
  options.commit_time_ns = 1700000000000000000;
  options.sync = false;
  const auto count = std::make_shared<int>(0);
  options.new_file_name = [count, name_digit] {
    std::string name = std::to_string((*count)++);
    return std::string(32 - name.size(), name_digit) + name;
  };
  return options;
}

inline Result<BulkWriteSummary> WriteItems(Store& store,
                                           const std::string& directory,
                                           const Items& items,
                                           const BulkWriteOptions& options) {
  HF_ASSIGN_OR_RETURN(const auto writer,
                      BulkWriter::Create(&store, directory, options));
  size_t index = 0;
  for (const auto& [key, value] : items) {
    HF_RETURN_IF_ERROR(writer->Put(index++, key, Chunk(value)));
  }
  return writer->Finish();
}

// Merges databases that are in the store.
inline Result<BulkWriteSummary> MergeDatabases(
    Store* store, const std::string& directory,
    const std::vector<std::string>& subdirectories,
    const BulkWriteOptions& options) {
  std::vector<MergeChild> children;
  for (const std::string& subdirectory : subdirectories) {
    HF_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                        Database::Open(store, directory + subdirectory));
    HF_ASSIGN_OR_RETURN(EntryList entries, ReadAllEntries(*database));
    children.push_back({subdirectory, std::move(entries)});
  }
  return MergeEntries(store, directory, std::move(children), options);
}

}  // namespace holdfast::ocdbt
