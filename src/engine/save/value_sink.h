// ValueSink: writes a save's encoded values to a database or to files.
//
// Thread-safety: Put from any thread; the rest from one.
// Ownership: borrows the store; a value passed to Put may borrow the saved
// arrays, which must exist until Finish.
// Units: bytes. Errors: those of the store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/check/value_sums.h"
#include "engine/format/digest_file.h"
#include "engine/format/directory_names.h"
#include "engine/save/stored_chunks.h"
#include "formats/codec/codec.h"
#include "formats/ocdbt/merge.h"
#include "holdfast/options.h"
#include "stores/storage/store.h"

namespace holdfast {

class FloatSums;

// The keys of an array's chunks, in C order of the grid, and where they are
// stored.
struct ReferredArray {
  std::vector<std::string> keys;
  const StoredChunks* stored = nullptr;
};

class ValueSink {
 public:
  virtual ~ValueSink() = default;

  // Takes value `index` of the plan. Each value is put once, in any order.
  // `keepalive` is released as soon as the value's bytes are written.
  virtual Status Put(uint64_t index, std::string key, EncodedChunk value,
                     ValueKnownBy known_by,
                     std::shared_ptr<const void> keepalive) = 0;

  // Writes the encoded bytes of a value with `write`, in order.
  using StreamFn = std::function<Status(const WriteFn& write)>;
  // Like Put, for a value too large to hold in memory: its bytes are written as
  // `produce` makes them. `produce` may be called only after earlier values are
  // put.
  virtual Status PutStream(uint64_t index, std::string key,
                           ValueKnownBy known_by, const StreamFn& produce) = 0;

  // Adds references to the chunks of an array, which are already in the store
  // or will be linked into it. Do not call it while values are being put.
  // Returns Unimplemented if no new database is written.
  virtual Status Refer(const ReferredArray& array);

  // Ends all waiting in PutStream, which then returns `status`.
  virtual void Abort(const Status& status) = 0;

  // Call after the last Put. Leaves everything written and, if requested,
  // synced; adds the checksums of everything written to `digests`.
  virtual Status Finish(DigestFile& digests) = 0;
};

struct ValueSinkOptions {
  bool use_ocdbt = true;  // if false, one file per value
  uint64_t value_count = 0;
  // As in FileWriter. (An OCDBT manifest is never replaced.)
  std::string guarded_path;
  bool sync = true;
  bool write_digests = true;
  // With write_digests: told of the chunks that it wants; may be null.
  FloatSums* floats = nullptr;
  int64_t target_data_file_bytes = 0;
  uint64_t commit_time_ns = 0;
  std::function<std::string()> random_hex;  // 32 lowercase hex digits
  // The process's own database.
  ProcessDirectory process{"0", false};
  // If false, the caller merges the database elsewhere.
  bool must_merge = true;
  // Databases that already exist in the store, "ocdbt.process_0/" and the like:
  // they are merged into the root with the sink's own database.
  std::vector<std::string> adopted_databases;
  // If set, the process's database exists and the values become its next
  // generation (append_sink.h), in which these arrays, given by parameter name,
  // lose the keys that they had.
  std::optional<std::vector<std::string>> replaced;
};

// Returns the directory of the sink's own database, ending in '/'. If a
// database of that name is adopted, "holdfast" precedes the id.
std::string ProcessPrefix(const ValueSinkOptions& options);

// Writes the root database, which refers to the children's values, and adds the
// rows of its nodes and manifest to `digests`.
Status MergeIntoRoot(Store* store, const ValueSinkOptions& options,
                     std::vector<ocdbt::MergeChild> children,
                     DigestFile& digests);

// Makes a sink. With OCDBT, it writes its own database (unless there are no
// values) and the merged database above it, as Orbax leaves them.
Result<std::unique_ptr<ValueSink>> MakeValueSink(Store* store,
                                                 ValueSinkOptions options);

}  // namespace holdfast
