// ValueSink: where a save's encoded values go: one OCDBT database, or files.
//
// Thread-safety: Put from any thread; the rest from one.
// Ownership: borrows the store; a put value may borrow the saved arrays, which
// must stay until Finish.
// Units: bytes. Errors: those of the store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format/digest_file.h"
#include "codec/codec.h"
#include "holdfast/options.h"
#include "storage/store.h"

namespace holdfast {

class ValueSink {
 public:
  virtual ~ValueSink() = default;

  // Value `index` of the plan, each once, in any order. `keepalive` is released
  // as soon as the value's bytes are written.
  virtual Status Put(uint64_t index, std::string key, EncodedChunk value,
                     std::shared_ptr<const void> keepalive) = 0;

  // Writes with `write` the encoded bytes of a value, in order.
  using StreamFn = std::function<Status(const WriteFn& write)>;
  // As Put, for a value too large to be held: its bytes are written as
  // `produce` makes them, which may be called after values before it are put.
  virtual Status PutStream(uint64_t index, std::string key,
                           const StreamFn& produce) = 0;

  // Ends all waiting of PutStream, which then returns `status`.
  virtual void Abort(const Status& status) = 0;

  // After the last Put. Leaves everything written and, if asked for, synced;
  // adds the checksums of what was written to `digests`.
  virtual Status Finish(DigestFile& digests) = 0;
};

struct ValueSinkOptions {
  uint64_t value_count = 0;
  bool sync = true;
  bool write_digests = true;
  int64_t target_data_file_bytes = 0;
  uint64_t commit_time_ns = 0;
  std::function<std::string()> random_hex;  // 32 lowercase hex digits
  // Databases that are in the store already, "ocdbt.process_0/" and the like:
  // merged into the root with the sink's own.
  std::vector<std::string> adopted_databases;
};

// `ocdbt.process_0` and the merged database above it, as Orbax leaves them. Its
// own is `ocdbt.process_holdfast` where that one is adopted; none without
// values.
Result<std::unique_ptr<ValueSink>> MakeOcdbtSink(Store* store,
                                                 ValueSinkOptions options);
// One file a value.
std::unique_ptr<ValueSink> MakeDirectorySink(Store* store,
                                             ValueSinkOptions options);

}  // namespace holdfast
