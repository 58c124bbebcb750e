// SendQueue: the threads that send a store's uploads and wait for the server,
// and the bound on the uploads' memory.
//
// Threads start when there is work for them, and end with the queue. If the
// system provides fewer threads, those do all the work.
//
// The bytes of a buffer are taken before it is filled, and released after it
// has been sent. When the bound is reached, Take waits as long as something is
// being sent. If nothing is being sent, all buffers are waiting for their
// writers, and Take would wait forever. It then exceeds the bound, up to eight
// times, and fails beyond that.
// Thread-safety: any thread; tasks may start tasks, but must not take bytes.
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

  // Runs the task on a thread of the queue. ResourceExhausted if no thread
  // exists or can be started, or memory is short; the task then never runs.
  Status Start(std::function<void()> task);

  // Reserves the bytes until Release. REQUIRES: the caller holds no lock that a
  // task needs.
  Status Take(uint64_t byte_count);
  void Release(uint64_t byte_count);

  // Sets the bound for bytes that are taken from now on.
  void SetBytesMax(uint64_t bytes_max);
  uint64_t peak_bytes() const;

 private:
  void Work();

  const size_t thread_count_max_;

  mutable std::mutex mutex_;
  std::condition_variable work_;     // tasks_ or closed_ has changed
  std::condition_variable changed_;  // taken_bytes_ or running_count_ decreased
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
