// Store: named byte objects. holdfast accesses stored data only through this
// interface.
//
// A key is a relative path of '/'-separated parts ("d/6f31…", "a.b/.zarray").
// Every store refuses these keys with InvalidArgument: an empty key, empty
// parts, ".", "..", a leading or trailing '/', a NUL byte, a part longer than
// 255 bytes. No key may be a parent of another ("a" alongside "a/b"): a file
// store refuses the second key with FailedPrecondition. The interface has no
// rename, so that object stores can implement it. checkpoint/commit publishes
// complete directories.
//
// Thread-safety: all methods may be called from any thread.
// Ownership: returned Bytes own their memory; keys and pieces are borrowed for
// the call. Units: bytes.
// Errors: NotFound (no such object), OutOfRange (read past the end, message has
// range and size), PermissionDenied, ResourceExhausted (disk full, quota),
// Unavailable (retry), each with the location in the message.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"

namespace holdfast {

inline constexpr uint64_t kToEnd = std::numeric_limits<uint64_t>::max();

struct ByteRange {
  uint64_t offset = 0;
  uint64_t byte_count = kToEnd;
};

struct ObjectInfo {
  uint64_t byte_count = 0;
  // The time of the last change, in nanoseconds since 1970; 0 if unknown or not
  // requested.
  int64_t modified_ns = 0;
};

struct WriteOptions {
  // Whether to wait until the object's bytes are on stable storage.
  bool sync = true;
  // If true, readers see either the old state (the old object or none) or the
  // complete new object. With `sync` this also holds after a crash, and the new
  // name is durable as well.
  //
  // Set to false only if no reader can look yet (an unpublished checkpoint). A
  // failed write then leaves nothing, and the name is durable after SyncNames.
  bool atomic = true;
  // Whether to fail with AlreadyExists instead of replacing an object.
  bool must_create = false;
  // Whether the store may return before the object exists. Flush then waits for
  // the object and reports any failure (also AlreadyExists). Stores that do not
  // wait for a server ignore this.
  bool may_queue = false;
};

// An object written in pieces by many threads. It appears under its key only
// with Finish, and replaces any earlier object; an unfinished or failed writer
// leaves nothing. The store must outlive its writers. WriteAt or Finish after
// Finish is FailedPrecondition.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  // Writes the pieces, one after the other, at `offset`. May be called from any
  // thread; ranges of different calls must not overlap. Gaps read as zero.
  // InvalidArgument past offset 2^63 - 1. After a failure, Finish fails too.
  virtual Status WriteAt(uint64_t offset,
                         std::span<const std::string_view> pieces) = 0;
  // Completes the object. Call once, after all WriteAt calls have returned.
  // With `sync`, the bytes are on stable storage before the name appears, and
  // the name is durable after SyncNames. Without `sync`, a store that waits for
  // a server may return earlier: see Flush.
  virtual Status Finish(bool sync) = 0;
};

class Store;

// Where an object's bytes are stored. A plan uses it to sort and join reads.
struct ObjectLocation {
  Store* store = nullptr;  // borrowed; null when inline_value is set
  std::string key;
  uint64_t offset = 0;
  uint64_t byte_count = kToEnd;  // kToEnd: all of it, size unknown
  std::optional<Bytes> inline_value;
};

struct RangeRead {
  std::string_view key;
  uint64_t offset = 0;
  std::span<char> target;
};

class Store {
 public:
  virtual ~Store() = default;

  // Returns a readable location of a key for messages, e.g. "/ckpt/7/d/6f31".
  virtual std::string Describe(std::string_view key) const = 0;

  virtual Result<ObjectInfo> Stat(std::string_view key) = 0;
  // Reads a range. With kToEnd, reads from the offset to the end (the offset
  // may equal the size). Any other byte_count returns exactly that many bytes,
  // or OutOfRange.
  virtual Result<Bytes> Read(std::string_view key, ByteRange range = {}) = 0;
  // Reads from `offset` until `target` is full; OutOfRange if the object ends
  // first.
  virtual Status ReadInto(std::string_view key, uint64_t offset,
                          std::span<char> target) = 0;
  // Does independent reads, which a store with latency runs concurrently. By
  // default they run one after the other until the first failure, and `cancel`
  // is checked before each.
  virtual Status ReadBatch(std::span<const RangeRead> requests,
                           const CancelToken* cancel = nullptr);
  // How many concurrent calls are useful: 1 if results come without waiting
  // (files, memory), many if each call is a request to a server.
  virtual int requests_in_flight() const { return 1; }
  // How many objects to write concurrently to use the full bandwidth to the
  // store. More than 1 if the pieces of an object are sent one after the other.
  virtual int writers_in_flight() const { return 1; }
  // Bounds the memory for writes in progress, not counting what callers hold.
  // Stores that buffer nothing ignore this.
  virtual void BoundBuffers(uint64_t /*bytes_max*/) {}
  // Returns where the object's bytes are. By default returns {this, key, 0,
  // kToEnd} without checking that the object exists.
  virtual Result<ObjectLocation> Locate(std::string_view key);

  // Calls `fn` for each object whose key starts with `prefix` (compared as
  // bytes), in increasing byte order of keys, until `fn` fails. A prefix that
  // matches nothing is not an error.
  virtual Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) = 0;

  virtual Status Write(std::string_view key,
                       std::span<const std::string_view> pieces,
                       const WriteOptions& options = {}) = 0;
  // Returns a writer for an object of `byte_count` bytes that other processes
  // also write, each its own ranges. The object exists from the first call on,
  // has zeros where nothing was written, and stays if a writer fails.
  // Unimplemented by default.
  virtual Result<std::unique_ptr<ObjectWriter>> CreateShared(
      std::string_view key, uint64_t byte_count);
  virtual Result<std::unique_ptr<ObjectWriter>> Create(
      std::string_view key) = 0;
  // Deletes an object. Ok if it is missing.
  virtual Status Delete(std::string_view key) = 0;
  // Makes the names of all objects written so far durable (for files: syncs
  // every directory touched, deepest first). Object stores only Flush.
  virtual Status SyncNames() = 0;
  // Waits for writes that the store has only queued (may_queue, or neither sync
  // nor atomic) and returns their first failure, once. Flush syncs nothing;
  // SyncNames waits for these writes, too. Other calls on the same store see
  // what it has queued.
  virtual Status Flush() { return Status(); }

  // Writes a single piece.
  Status Write(std::string_view key, std::string_view value,
               const WriteOptions& options = {});
};

// Returns ok, or InvalidArgument with the rule that the key breaks.
Status CheckKey(std::string_view key);

// For stores: returns the range with kToEnd replaced by the actual count, or
// OutOfRange "read <place>: bytes at offset … are past the end". Never
// overflows.
Result<ByteRange> ResolveRange(const ByteRange& range,
                               uint64_t object_byte_count,
                               std::string_view place);

// Returns ok, or InvalidArgument if a write of `byte_count` bytes at `offset`
// would pass 2^63 - 1, the largest offset that any store accepts.
Status CheckWriteRange(uint64_t offset, uint64_t byte_count,
                       std::string_view place);

// Returns the sum of the pieces' sizes.
uint64_t TotalBytes(std::span<const std::string_view> pieces);

}  // namespace holdfast
