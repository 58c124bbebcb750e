#include "orbax/manager/step_remover.h"

#include <algorithm>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/start_threads.h"
#include "holdfast/steps/steps.h"

namespace holdfast {

StepRemover::StepRemover(int thread_count)
    : thread_count_(static_cast<size_t>(std::max(thread_count, 1))) {}

StepRemover::~StepRemover() { Finish(); }

void StepRemover::Remove(std::string path) {
  Run([path = std::move(path)] { return RemoveTrashed(path); });
}

void StepRemover::Run(std::function<Status()> job) {
  std::unique_lock lock(mutex_);
  if (is_finished_) return;
  jobs_.push_back(std::move(job));
  // While Finish waits, a thread whose job adds another job runs that job, too.
  if (!is_finishing_ &&
      threads_.size() < std::min(thread_count_, jobs_.size())) {
    StartThreads(1, threads_, [this] { Work(); });
  }
  changed_.notify_all();
  if (threads_.empty()) RunJobs(lock);
}

void StepRemover::Finish() {
  {
    const std::lock_guard lock(mutex_);
    is_finishing_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  const std::lock_guard lock(mutex_);
  is_finished_ = true;
}

void StepRemover::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && running_count_ == 0; });
}

Status StepRemover::TakeError() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, Status());
}

void StepRemover::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_finishing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    RunJobs(lock);
  }
}

// Runs jobs until none are left. REQUIRES: lock holds mutex_.
void StepRemover::RunJobs(std::unique_lock<std::mutex>& lock) {
  while (!jobs_.empty()) {
    const std::function<Status()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++running_count_;
    lock.unlock();
    Status done = CatchBadAlloc(job);
    lock.lock();
    --running_count_;
    if (error_.ok()) error_ = std::move(done);
    changed_.notify_all();
  }
}

}  // namespace holdfast
