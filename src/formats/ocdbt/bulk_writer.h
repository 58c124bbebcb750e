// BulkWriter: writes one new database in one pass, from any number of threads,
// with the same bytes whatever their number and order.
//
// Values that are not stored in the tree get their places in the order of
// their indexes: a value waits in memory (borrowed, not copied) until all
// before it are known. A caller that bounds its memory must therefore start
// items in the order of indexes.
//
// Thread-safety: Put from any thread; Finish after all Put calls returned.
// Ownership: borrows the store. The memory behind a value's pieces must live
// until Finish, or belong to the value's storage or to `keepalive`, which are
// released as soon as the bytes are written or copied.
// Units: bytes. Errors: as in commit.h; the first failure is returned by all
// later calls. A writer destroyed without Finish removes its files.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/codec/codec.h"
#include "formats/ocdbt/commit.h"
#include "formats/ocdbt/data_file_appender.h"
#include "formats/ocdbt/entry_list.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

class BulkWriter {
 public:
  // `directory` is "" or ends in '/'.
  static Result<std::unique_ptr<BulkWriter>> Create(
      Store* store, std::string directory, const BulkWriteOptions& options);

  // Indexes are 0 ... n-1, each exactly once, in any order.
  Status Put(size_t index, std::string_view key, EncodedChunk value,
             std::shared_ptr<const void> keepalive = nullptr);

  // Writes with `write` the bytes of a value, in order.
  using StreamFn = std::function<Status(const WriteFn& write)>;
  // As Put, for a value too large to be held: waits until the values before it
  // have their places, then calls `produce`, whose bytes are written as they
  // come. Values behind it wait until it is done.
  Status PutStream(size_t index, std::string_view key, const StreamFn& produce);

  // Ends all waiting: nothing more is written, and later calls return `status`.
  void Abort(const Status& status);

  Result<BulkWriteSummary> Finish();

 private:
  struct Value {
    EncodedChunk chunk;
    std::shared_ptr<const void> keepalive;
  };
  struct PlacedValue {
    Reference place;
    Value value;
  };
  using Batch = std::vector<PlacedValue>;
  class StreamedValue;

  BulkWriter(Store* store, std::string directory,
             const BulkWriteOptions& options);

  Status Record(size_t index, std::string_view key, Value& value,
                char*& inline_target);
  // REQUIRES: mutex_ held.
  Status MarkKnown(size_t index, std::string_view key);
  void PlaceReady();
  Status WaitForTurn(size_t index);
  Batch TakeBatch();  // neighbours in one file; empty: nothing to write
  Status WriteReady();
  Status WriteBatch(const Batch& batch);

  Store* const store_;
  const std::string directory_;
  const BulkWriteOptions options_;

  std::mutex mutex_;
  std::condition_variable turn_;  // next_index_ or status_ has changed
  Status status_;                 // the first failure
  EntryList list_;                // entry i is that of index i
  std::vector<bool> known_;
  size_t known_count_ = 0;
  size_t next_index_ = 0;  // all before it have their places
  std::unordered_map<size_t, Value> waiting_;
  std::deque<PlacedValue> ready_;
  std::shared_ptr<TextArena> arena_;
  DataFileAppender appender_;
};

}  // namespace holdfast::ocdbt
