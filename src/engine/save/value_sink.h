// ValueSink: where a save's encoded values go: a database, or files.
//
// Thread-safety: Put from any thread; the rest from one.
// Ownership: borrows the store; a put value may borrow the saved arrays, which
// must stay until Finish.
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

// The keys of an array's chunks, in C order of the grid, and where they lie.
struct ReferredArray {
  std::vector<std::string> keys;
  const StoredChunks* stored = nullptr;
};

class ValueSink {
 public:
  virtual ~ValueSink() = default;

  // Value `index` of the plan, each once, in any order. `keepalive` is released
  // as soon as the value's bytes are written.
  virtual Status Put(uint64_t index, std::string key, EncodedChunk value,
                     ValueKnownBy known_by,
                     std::shared_ptr<const void> keepalive) = 0;

  // Writes with `write` the encoded bytes of a value, in order.
  using StreamFn = std::function<Status(const WriteFn& write)>;
  // As Put, for a value too large to be held: its bytes are written as
  // `produce` makes them, which may be called after values before it are put.
  virtual Status PutStream(uint64_t index, std::string key,
                           ValueKnownBy known_by, const StreamFn& produce) = 0;

  // References to the chunks of an array, which are in the store already, or
  // come under links. Not while values are put. Unimplemented where there is no
  // new database.
  virtual Status Refer(const ReferredArray& array);

  // Ends all waiting of PutStream, which then returns `status`.
  virtual void Abort(const Status& status) = 0;

  // After the last Put. Leaves everything written and, if asked for, synced;
  // adds the checksums of what was written to `digests`.
  virtual Status Finish(DigestFile& digests) = 0;
};

struct ValueSinkOptions {
  bool use_ocdbt = true;  // false: one file a value
  uint64_t value_count = 0;
  // As FileWriter's. (An OCDBT manifest is never replaced.)
  std::string guarded_path;
  bool sync = true;
  bool write_digests = true;
  int64_t target_data_file_bytes = 0;
  uint64_t commit_time_ns = 0;
  std::function<std::string()> random_hex;  // 32 lowercase hex digits
  // The process's own database.
  ProcessDirectory process{"0", false};
  // False: somebody else will merge it.
  bool must_merge = true;
  // Databases that are in the store already, "ocdbt.process_0/" and the like:
  // merged into the root with the sink's own.
  std::vector<std::string> adopted_databases;
  // Present: the process's database is there, and the values become its next
  // generation (append_sink.h), in which these arrays, by parameter name, lose
  // the keys that they had.
  std::optional<std::vector<std::string>> replaced;
};

// The directory of the sink's own database, ending in '/'. Where a database of
// that name is adopted, "holdfast" comes before its id.
std::string ProcessPrefix(const ValueSinkOptions& options);

// The root database, with what the children have by reference, and the rows of
// its nodes and manifest.
Status MergeIntoRoot(Store* store, const ValueSinkOptions& options,
                     std::vector<ocdbt::MergeChild> children,
                     DigestFile& digests);

// With OCDBT that database, none without values, and the merged one above it,
// as Orbax leaves them.
Result<std::unique_ptr<ValueSink>> MakeValueSink(Store* store,
                                                 ValueSinkOptions options);

}  // namespace holdfast
