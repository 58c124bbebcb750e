// Joins the results of a tensor's slabs in the order of the slabs, whatever
// order they arrive in, so that sums do not depend on the number of threads.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>

namespace holdfast {

// T::Join(next) must join the results that follow its own.
template <typename T>
class InOrder {
 public:
  void Add(uint64_t number, const T& part) {
    if (number != next_) {
      waiting_.emplace(number, part);
      return;
    }
    Join(part);
    for (auto it = waiting_.begin();
         it != waiting_.end() && it->first == next_;) {
      Join(it->second);
      it = waiting_.erase(it);
    }
  }

  const T& joined() const { return joined_; }

 private:
  void Join(const T& part) {
    joined_.Join(part);
    ++next_;
  }

  T joined_;
  uint64_t next_ = 0;
  std::map<uint64_t, T> waiting_;
};

}  // namespace holdfast
