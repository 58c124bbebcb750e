// ValueSink: where a save's encoded values go: one OCDBT database, or files.
//
// Thread-safety: Put from any thread; the rest from one.
// Ownership: borrows the store; a put value may borrow the saved arrays, which
// must stay until Finish.
// Units: bytes. Errors: those of the store.
#pragma once

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
};

// `ocdbt.process_0` and the merged database above it, as Orbax leaves them.
Result<std::unique_ptr<ValueSink>> MakeOcdbtSink(Store* store,
                                                 ValueSinkOptions options);
// One file a value.
std::unique_ptr<ValueSink> MakeDirectorySink(Store* store,
                                             ValueSinkOptions options);

}  // namespace holdfast
