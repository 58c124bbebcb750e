// ByteBudget: a hard bound on the bytes that running work holds at any time.
//
// A request larger than the entire budget is admitted when nothing else is
// held, so no request waits forever. Work that can be done piece by piece asks
// for a few pieces instead.
// Thread-safety: any thread. Units: bytes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>

namespace holdfast {

class ByteBudget {
 public:
  // 0 means no bound.
  explicit ByteBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Holds a part of the budget until it is destroyed.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { Release(); }
    void Release();

   private:
    friend class ByteBudget;
    Lease(ByteBudget* budget, size_t byte_count)
        : budget_(budget), byte_count_(byte_count) {}
    ByteBudget* budget_ = nullptr;
    size_t byte_count_ = 0;
  };

  // Blocks until the bytes fit.
  Lease Acquire(size_t byte_count);
  // Returns nullopt if Acquire would block.
  std::optional<Lease> TryAcquire(size_t byte_count);

  // Returns true if a request of this size exceeds the budget and working in
  // pieces would take less memory.
  bool WantsPieces(size_t byte_count) const;
  // Returns the size of the pieces to cut such work into. The work holds two
  // pieces at a time.
  size_t piece_bytes() const;

  size_t bytes_max() const { return bytes_max_; }
  size_t peak_bytes() const;

 private:
  bool Fits(size_t byte_count) const;  // REQUIRES: mutex_ held
  Lease Hold(size_t byte_count);       // REQUIRES: mutex_ held
  void Return(size_t byte_count);

  const size_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  size_t held_bytes_ = 0;
  size_t peak_bytes_ = 0;
};

}  // namespace holdfast
