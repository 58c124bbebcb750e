// OcdbtStore: the keys of an OCDBT database as a read-only Store.
//
// A key may be any bytes, exactly as in the database. Locate returns the data
// file and the offset of a value, so that reads can be sorted and joined.
// Thread-safety: any thread. Ownership: owns the database, borrows the base
// store below it. Units: bytes.
// Errors: as in store.h and database.h; writing is FailedPrecondition.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/ocdbt/database.h"
#include "holdfast/status.h"
#include "stores/storage/read_only_store.h"

namespace holdfast::ocdbt {

class OcdbtStore : public ReadOnlyStore {
 public:
  explicit OcdbtStore(std::unique_ptr<Database> database)
      : database_(std::move(database)) {}

  Database& database() { return *database_; }

  // Returns "<directory>|ocdbt:<key>".
  std::string Describe(std::string_view key) const override;
  int requests_in_flight() const override {
    return base().requests_in_flight();
  }
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  // Sends the reads of data files to the base store as one batch.
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel = nullptr) override;
  Result<ObjectLocation> Locate(std::string_view key) override;
  Status List(std::string_view prefix,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>& fn) override;

 private:
  Store& base() const { return *database_->store(); }
  Status Refusal(std::string_view key) const override;
  // Returns ok if the range is inside the value.
  Status CheckRange(std::string_view key, uint64_t offset, uint64_t byte_count,
                    const ValueRef& value) const;

  const std::unique_ptr<Database> database_;
};

}  // namespace holdfast::ocdbt
