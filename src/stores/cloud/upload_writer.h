// UploadWriter: an ObjectWriter that sends an object in parts while the parts
// are filled. Nothing is stored on disk, and memory holds only what is being
// filled or sent.
//
// A part is sent as soon as it is full. If the bucket wants parts in order, a
// part waits for those before it. An object that is finished before any part
// was sent, and that is no longer than `put_bytes_max`, is sent with one PUT.
// All buffers count against the queue's bound, so WriteAt waits while the bound
// is reached and something is being sent.
// Thread-safety: as ObjectWriter. Ownership: everything that the target points
// to must outlive the writer and, after a Finish that did not wait, the queue's
// tasks. Units: bytes.
// Errors: those of the bucket; FailedPrecondition after Finish or a refused
// call; ResourceExhausted (send_queue.h; no memory).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ground/base/buffer_pool.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/send_queue.h"
#include "stores/storage/store.h"

namespace holdfast {

struct UploadTarget {
  Bucket* bucket = nullptr;
  SendQueue* queue = nullptr;
  BufferPool* pool = nullptr;
  std::string key;  // in the bucket
  Condition condition;
  // Called before and after the object may appear. Finish calls `begins` before
  // the last request. `ended` is called once after that request, on any thread;
  // `is_told` is true if Finish waits and returns the failure itself. Both
  // functions may be empty.
  std::function<void()> begins;
  std::function<void(const Result<std::string>& version, uint64_t byte_count,
                     bool is_told)>
      ended;
};

class UploadWriter : public ObjectWriter {
 public:
  explicit UploadWriter(UploadTarget target);
  // Without Finish, waits for parts that are being sent, then aborts the
  // upload.
  ~UploadWriter() override;

  Status WriteAt(uint64_t offset,
                 std::span<const std::string_view> pieces) override;
  // With `sync`, waits for the object; otherwise `ended` is called when it
  // exists.
  Status Finish(bool sync) override;

 private:
  class Sending;
  const std::shared_ptr<Sending> sending_;
};

}  // namespace holdfast
