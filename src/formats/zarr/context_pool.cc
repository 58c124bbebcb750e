#include "formats/zarr/context_pool.h"

#include "ground/base/no_throw.h"

namespace holdfast::zarr {

CodecContextPool::Lease CodecContextPool::Take() {
  std::unique_ptr<CodecContext> context;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      context = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (context == nullptr) context = std::make_unique<CodecContext>();
  return Lease(this, std::move(context));
}

void CodecContextPool::Return(std::unique_ptr<CodecContext> context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A destructor calls this. If memory is short, the context is not kept.
  (void)CatchBadAlloc([&] {
    free_.push_back(std::move(context));
    return Status();
  });
}

}  // namespace holdfast::zarr
