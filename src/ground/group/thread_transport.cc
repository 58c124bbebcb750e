#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <tuple>

#include "ground/base/wait_time.h"
#include "holdfast/process_group.h"

namespace holdfast {
namespace {

// Holds the messages of all ranks.
class Mailboxes {
 public:
  Status Put(int64_t from, int64_t to, std::string_view topic,
             std::string_view message) {
    const std::lock_guard lock(mutex_);
    const auto [it, is_new] = messages_.try_emplace(
        Key(from, to, std::string(topic)), std::string(message));
    if (!is_new) {
      return InternalError("a second message from rank " +
                           std::to_string(from) + " to rank " +
                           std::to_string(to) + " on " + std::string(topic));
    }
    arrived_.notify_all();
    return Status();
  }

  Result<std::string> Take(int64_t from, int64_t to, std::string_view topic,
                           double timeout_seconds) {
    const Key key(from, to, std::string(topic));
    std::unique_lock lock(mutex_);
    const bool has_come =
        arrived_.wait_for(lock, WaitTime(timeout_seconds),
                          [&] { return messages_.contains(key); });
    if (!has_come) {
      return DeadlineExceededError("no message from rank " +
                                   std::to_string(from) + " on " +
                                   std::string(topic));
    }
    return std::move(messages_.extract(key).mapped());
  }

 private:
  using Key = std::tuple<int64_t, int64_t, std::string>;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Key, std::string> messages_;
};

class ThreadTransport : public ProcessTransport {
 public:
  ThreadTransport(std::shared_ptr<Mailboxes> mailboxes, int64_t rank,
                  int64_t size)
      : mailboxes_(std::move(mailboxes)), rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }

  Status Send(int64_t to, std::string_view topic,
              std::string_view message) override {
    return mailboxes_->Put(rank_, to, topic, message);
  }
  Result<std::string> Receive(int64_t from, std::string_view topic,
                              double timeout_seconds) override {
    return mailboxes_->Take(from, rank_, topic, timeout_seconds);
  }

 private:
  std::shared_ptr<Mailboxes> mailboxes_;
  int64_t rank_;
  int64_t size_;
};

}  // namespace

std::vector<std::shared_ptr<ProcessTransport>> MakeThreadTransports(
    int64_t size) {
  const auto mailboxes = std::make_shared<Mailboxes>();
  std::vector<std::shared_ptr<ProcessTransport>> transports;
  for (int64_t rank = 0; rank < size; ++rank) {
    transports.push_back(
        std::make_shared<ThreadTransport>(mailboxes, rank, size));
  }
  return transports;
}

}  // namespace holdfast
