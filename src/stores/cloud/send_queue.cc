#include "stores/cloud/send_queue.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <string>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/start_threads.h"

namespace holdfast {
namespace {

constexpr uint64_t kGiveWayFactor = 8;

}  // namespace

SendQueue::SendQueue(int thread_count_max, uint64_t bytes_max)
    : thread_count_max_(static_cast<size_t>(std::max(1, thread_count_max))),
      bytes_max_(bytes_max) {}

SendQueue::~SendQueue() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  work_.notify_all();
  // Only Start grows threads_, and by now only a running task can call it, so
  // the size is checked again in each round.
  for (size_t i = 0;; ++i) {
    std::thread thread;
    {
      std::lock_guard lock(mutex_);
      if (i == threads_.size()) break;
      thread = std::move(threads_[i]);
    }
    thread.join();
  }
}

Status SendQueue::Start(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (tasks_.size() >= idle_count_ && threads_.size() < thread_count_max_) {
      StartThreads(1, threads_, [this] { Work(); });
    }
    if (threads_.empty()) {
      return ResourceExhaustedError("uploads: the system gives no thread");
    }
    try {
      tasks_.push_back(std::move(task));
    } catch (const std::bad_alloc&) {
      return OutOfMemoryError();
    }
  }
  work_.notify_one();
  return {};
}

void SendQueue::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_count_;
    work_.wait(lock, [this] { return !tasks_.empty() || closed_; });
    --idle_count_;
    // A running task may start another task, which the running task's own
    // thread then runs. An idle thread may therefore end.
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_count_;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    --running_count_;
    changed_.notify_all();
  }
}

void SendQueue::SetBytesMax(uint64_t bytes_max) {
  {
    std::lock_guard lock(mutex_);
    bytes_max_ = bytes_max;
  }
  changed_.notify_all();
}

Status SendQueue::Take(uint64_t byte_count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    // If nothing is queued or running, no memory will be released, and the wait
    // would never end. The bound is then exceeded, up to the factor below.
    return taken_bytes_ + byte_count <= bytes_max_ ||
           (tasks_.empty() && running_count_ == 0);
  });
  if (taken_bytes_ != 0 &&
      taken_bytes_ + byte_count > kGiveWayFactor * bytes_max_) {
    return ResourceExhaustedError(
        "writes are too far out of order: " + std::to_string(taken_bytes_) +
        " bytes wait for the bytes before them");
  }
  taken_bytes_ += byte_count;
  peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
  return {};
}

void SendQueue::Release(uint64_t byte_count) {
  {
    std::lock_guard lock(mutex_);
    assert(byte_count <= taken_bytes_);
    taken_bytes_ -= byte_count;
  }
  changed_.notify_all();
}

uint64_t SendQueue::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_bytes_;
}

}  // namespace holdfast
