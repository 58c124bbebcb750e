// StepRemover: threads that delete the contents of the trash while saves
// continue.
//
// If a job fails, the error is stored and the next job runs. Threads start with
// the first job. If the system cannot start any thread, Run does the job
// itself.
// Thread-safety: any thread. Ownership: owns its threads; the destructor waits
// for all jobs.
// Errors: those of jobs, reported once by TakeError.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

class StepRemover {
 public:
  // `thread_count` is at least 1.
  explicit StepRemover(int thread_count);
  ~StepRemover();
  StepRemover(const StepRemover&) = delete;
  StepRemover& operator=(const StepRemover&) = delete;

  // Adds a job that removes the directory. In a bucket, the job removes the
  // directory only if it is marked for removal. Does nothing after Finish.
  void Remove(std::string path);
  void Run(std::function<Status()> job);
  // Waits until no job is left.
  void Drain();
  // Waits until no job is left, then ends the threads.
  void Finish();
  // Returns the first error since the last call.
  Status TakeError();

 private:
  void Work();
  void RunJobs(std::unique_lock<std::mutex>& lock);

  const size_t thread_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> jobs_;
  std::vector<std::thread> threads_;
  size_t running_count_ = 0;
  bool is_finishing_ = false;
  bool is_finished_ = false;
  Status error_;
};

}  // namespace holdfast
