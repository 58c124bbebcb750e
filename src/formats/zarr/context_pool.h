// CodecContextPool: codec contexts for work that any thread may do. Contexts
// are created as needed and kept, because creating one costs more than decoding
// a small chunk.
//
// Thread-safety: any thread. Ownership: a Lease must not outlive its pool.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "formats/codec/codec.h"

namespace holdfast::zarr {

class CodecContextPool {
 public:
  // Returns the context to the pool when destroyed.
  class Lease {
   public:
    Lease(CodecContextPool* pool, std::unique_ptr<CodecContext> context)
        : pool_(pool), context_(std::move(context)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_->Return(std::move(context_)); }
    CodecContext& operator*() { return *context_; }

   private:
    CodecContextPool* pool_;
    std::unique_ptr<CodecContext> context_;
  };

  Lease Take();

 private:
  void Return(std::unique_ptr<CodecContext> context);

  std::mutex mutex_;
  std::vector<std::unique_ptr<CodecContext>> free_;
};

}  // namespace holdfast::zarr
