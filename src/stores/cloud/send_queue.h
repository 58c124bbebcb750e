// SendQueue: the threads on which a store's uploads wait for their server, and
// the bound on the bytes that lie in memory for them.
//
// Threads start when there is work for them and end with the queue; where the
// system gives fewer, those that there are do it. Bytes are
// taken before a buffer is filled and given back when it was sent. Taking waits
// while that can help: while something is being sent. When nothing is, every
// buffer waits for writers, and to wait for buffers would be for ever; then the
// bound gives way, up to eight times, where taking fails.
// Thread-safety: any thread; tasks may start tasks, and must not take bytes.
// Ownership: owns its threads; the destructor waits for all tasks.
// Units: bytes. Errors: ResourceExhausted.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

class SendQueue {
 public:
  SendQueue(int thread_count_max, uint64_t bytes_max);
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // ResourceExhausted when there is no thread at all, or no memory; then the
  // task never runs.
  Status Start(std::function<void()> task);

  // Taken until Release. REQUIRES: the caller holds no lock that a task needs.
  Status Take(uint64_t byte_count);
  void Release(uint64_t byte_count);

  // For bytes that are taken from now on.
  void SetBytesMax(uint64_t bytes_max);
  uint64_t peak_bytes() const;

 private:
  void Work();

  const size_t thread_count_max_;

  mutable std::mutex mutex_;
  std::condition_variable work_;     // tasks_ or closed_ has changed
  std::condition_variable changed_;  // taken_bytes_ or running_count_ fell
  std::deque<std::function<void()>> tasks_;
  size_t running_count_ = 0;
  size_t idle_count_ = 0;
  bool closed_ = false;
  uint64_t bytes_max_;
  uint64_t taken_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace holdfast
