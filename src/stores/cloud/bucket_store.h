// BucketStore: the Store of a directory in a bucket.
//
// Reads: a large range is split into parts that are requested concurrently; a
// batch takes one round trip. The store remembers the version of each object
// that Stat, Read or List saw first, and reads no other version. If another
// writer replaces an object in the meantime, a read is DataLoss, so that
// versions are never mixed. The store's own writes update the remembered
// version.
//
// Writes that may be queued (WriteOptions::may_queue, or neither sync nor
// atomic nor must_create; ObjectWriter::Finish without sync) are copied and
// sent in the background. Flush and SyncNames wait for all of them. The first
// failure is returned once, by Flush, SyncNames or the next queued write. Other
// calls on this store wait for queued writes under their keys. Large objects
// are sent in parts. `buffered_bytes_max` bounds all memory for writes; beyond
// the bound, writes wait.
//
// Listings leave out keys that a Store cannot have: "a/" (directory markers),
// "a//b" and the like.
//
// Thread-safety: any thread. Ownership: shares the bucket; the destructor waits
// for queued writes. Units: bytes.
// Errors: as in store.h and bucket.h; DataLoss "changed while being read".
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ground/base/buffer_pool.h"
#include "ground/base/process_ptr.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/seen_versions.h"
#include "stores/cloud/send_queue.h"
#include "stores/storage/store.h"

namespace holdfast {

struct BucketStoreOptions {
  uint64_t buffered_bytes_max = uint64_t{128} << 20;
};

class BucketStore : public Store {
 public:
  using Store::Write;

  // `root_key` is "" or "a/b", without a leading or trailing '/'.
  BucketStore(std::shared_ptr<Bucket> bucket, std::string_view root_key,
              BucketStoreOptions options = {});

  // Records an object of this store that was listed or examined elsewhere, as
  // if this store had seen it. The entry's key is the key in the bucket.
  void Remember(const ObjectEntry& entry);

  Bucket& bucket() { return *bucket_; }
  // Returns the peak memory for writes.
  uint64_t peak_buffered_bytes() const { return queue_->peak_bytes(); }

  std::string Describe(std::string_view key) const override;
  int requests_in_flight() const override;
  int writers_in_flight() const override;
  void BoundBuffers(uint64_t bytes_max) override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel = nullptr) override;
  Status List(std::string_view prefix,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>& fn) override;
  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options = {}) override;
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override;
  Status Delete(std::string_view key) override;
  Status SyncNames() override { return Flush(); }
  Status Flush() override;

 private:
  std::string KeyOf(std::string_view key) const {
    return root_ + std::string(key);
  }
  std::unique_ptr<ObjectWriter> MakeWriter(const std::string& bucket_key,
                                           Condition condition);
  Status PutNow(const std::string& bucket_key,
                std::span<const std::string_view> pieces,
                const Condition& condition);
  Status PutLater(const std::string& bucket_key,
                  std::span<const std::string_view> pieces,
                  const Condition& condition);
  Status PutInParts(const std::string& bucket_key,
                    std::span<const std::string_view> pieces,
                    const Condition& condition, bool waits);

  // These are called before and after each write, queued or not.
  void WriteBegins(const std::string& bucket_key);
  void WriteEnded(const std::string& bucket_key,
                  const Result<std::string>& version, uint64_t byte_count,
                  bool is_told);
  Status FirstFailure();
  void WaitForKey(const std::string& bucket_key);
  void WaitForPrefix(const std::string& bucket_prefix);

  const std::shared_ptr<Bucket> bucket_;
  const std::string root_;  // "" or "a/b/"
  const uint64_t buffered_bytes_max_;
  SeenVersions seen_;
  BufferPool pool_;

  std::mutex mutex_;
  std::condition_variable settled_;
  // The number of writes in progress whose callers do not wait for them, by
  // key.
  std::map<std::string, int, std::less<>> queued_;
  Status first_failure_;

  ProcessPtr<SendQueue> queue_;  // last: its tasks use all other members
};

}  // namespace holdfast
