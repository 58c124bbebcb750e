// PendingStore: a database whose changes are kept in memory until Commit writes
// them as one new generation. Reads see the changes.
//
// If there is no database yet, the store is empty and Commit creates one.
// Thread-safety: any thread; Commit needs exclusive access. Ownership: shares
// the base store, owns copies of the changes. Units: bytes.
// Errors: as in store.h, database.h and append.h. After a failed Commit the
// changes are still pending and the database is unchanged.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/ocdbt/commit.h"
#include "formats/ocdbt/database.h"
#include "formats/ocdbt/ocdbt_store.h"
#include "ground/base/bytes.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

class PendingStore : public Store {
 public:
  using Store::Write;

  // `directory` is "" or ends in '/'. `options` are those of AppendEntries.
  static Result<std::unique_ptr<PendingStore>> Open(
      std::shared_ptr<Store> base, std::string directory,
      const BulkWriteOptions& options, const OpenOptions& open_options = {});

  // Does nothing if there are no changes.
  Status Commit();

  std::string Describe(std::string_view key) const override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  Status List(std::string_view prefix,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>& fn) override;
  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options = {}) override;
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override;
  Status Delete(std::string_view key) override;
  Status SyncNames() override { return Status(); }

 private:
  class Writer;
  // A new value, or nullopt if the key was deleted.
  using Change = std::optional<Bytes>;

  PendingStore(std::shared_ptr<Store> base, std::string directory,
               const BulkWriteOptions& options,
               const OpenOptions& open_options);
  // Opens the newest generation, if there is a database.
  Status Reopen();
  Status Absent(std::string_view key) const;
  // Returns the change to the key, or nullopt if the database must be asked.
  std::optional<Change> Find(std::string_view key) const;
  void Set(std::string_view key, Change change);

  const std::shared_ptr<Store> base_;
  const std::string directory_;
  const BulkWriteOptions options_;
  const OpenOptions open_options_;
  std::unique_ptr<OcdbtStore> stored_;  // null: no database
  mutable std::mutex mutex_;
  std::map<std::string, Change, std::less<>> changes_;
};

}  // namespace holdfast::ocdbt
