// BulkWriter: writes one new database in one pass, from any number of threads.
// The bytes do not depend on the number of threads or on their order.
//
// Values that are not stored in the tree are placed in the order of their
// indices: a value waits in memory (borrowed, not copied) until all values
// before it are known. To bound its memory, a caller must therefore start items
// in the order of their indices.
//
// Thread-safety: Put from any thread; Finish after all Put calls have returned.
// Ownership: borrows the store. The memory of a value's pieces must live until
// Finish, or belong to the value's storage or to `keepalive`, which are
// released as soon as the bytes are written or copied.
// Units: bytes. Errors: as in commit.h; the first failure is returned by all
// later calls. A writer that is destroyed without Finish deletes its files.
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

  // Adds a value. Indices are 0 to n-1, each given exactly once, in any order.
  Status Put(size_t index, std::string_view key, EncodedChunk value,
             std::shared_ptr<const void> keepalive = nullptr);

  // Passes the bytes of a value to `write`, in order.
  using StreamFn = std::function<Status(const WriteFn& write)>;
  // Like Put, for a value that is too large to hold in memory: waits until the
  // values before it have their places, then calls `produce` and writes its
  // bytes as they come. Later values wait until it has finished.
  Status PutStream(size_t index, std::string_view key, const StreamFn& produce);

  // Ends all waiting. Nothing more is written, and later calls return `status`.
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
  Batch TakeBatch();  // contiguous in one file; empty: nothing to write
  Status WriteReady();
  Status WriteBatch(const Batch& batch);

  Store* const store_;
  const std::string directory_;
  const BulkWriteOptions options_;

  std::mutex mutex_;
  std::condition_variable turn_;  // next_index_ or status_ has changed
  Status status_;                 // the first failure
  EntryList list_;                // entry i has index i
  std::vector<bool> known_;
  size_t known_count_ = 0;
  size_t next_index_ = 0;  // all values before it have their places
  std::unordered_map<size_t, Value> waiting_;
  std::deque<PlacedValue> ready_;
  std::shared_ptr<TextArena> arena_;
  DataFileAppender appender_;
};

}  // namespace holdfast::ocdbt
