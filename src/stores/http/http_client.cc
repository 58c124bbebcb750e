#include "stores/http/http_client.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "ground/base/no_throw.h"
#include "ground/base/text.h"
#include "holdfast/version.h"
#include "stores/http/client_loop.h"

namespace holdfast {
namespace {

void LogToStderr(std::string_view line) {
  std::fprintf(stderr, "holdfast: %.*s\n", static_cast<int>(line.size()),
               line.data());
}

HttpOptions WithDefaults(HttpOptions options) {
  if (options.user_agent.empty()) {
    options.user_agent = "holdfast/" HOLDFAST_VERSION;
  }
  const char* log = std::getenv("HOLDFAST_LOG");
  if (!options.log && log != nullptr && std::string_view(log) == "stderr") {
    options.log = LogToStderr;
  }
  return options;
}

// Waits until a given number of answers have arrived.
class AnswerCount {
 public:
  explicit AnswerCount(size_t count) : left_count_(count) {}
  void Arrive() {
    const std::lock_guard lock(mutex_);
    if (--left_count_ == 0) all_there_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    all_there_.wait(lock, [&] { return left_count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_there_;
  size_t left_count_;
};

}  // namespace

std::optional<std::string_view> FindHeader(const HttpHeaders& headers,
                                           std::string_view name) {
  for (const auto& [header_name, value] : headers) {
    if (EqualsInAnyCase(header_name, name)) return value;
  }
  return std::nullopt;
}

HttpCounters TotalHttpCounters() { return RequestCounts::OfProcess().Read(); }

// Holds this process's loop. fork() does not copy the loop's thread, and the
// loop's locks may stay locked forever, so a child does not touch the parent's
// loop.
class HttpClient::Loop {
 public:
  explicit Loop(HttpOptions options)
      : options_(WithDefaults(std::move(options))) {}

  ~Loop() {
    OfProcess* current = current_.load();
    // A child must not join a thread that exists only in the parent.
    if (current != nullptr && current->pid == getpid()) delete current;
  }

  ClientLoop& Get() {
    const pid_t pid = getpid();
    OfProcess* current = current_.load();
    while (current == nullptr || current->pid != pid) {
      auto mine = std::make_unique<OfProcess>(pid, options_);
      // Several threads may create a loop at once. Those that come too late
      // delete theirs, which has no thread yet.
      if (current_.compare_exchange_strong(current, mine.get())) {
        current = mine.release();
      }
    }
    return current->loop;
  }

  HttpCounters counters() const {
    OfProcess* current = current_.load();
    return current != nullptr ? current->loop.counters() : HttpCounters();
  }

  const HttpOptions& options() const { return options_; }

 private:
  struct OfProcess {
    OfProcess(pid_t pid, const HttpOptions& options)
        : pid(pid), loop(options) {}
    const pid_t pid;
    ClientLoop loop;
  };

  const HttpOptions options_;
  std::atomic<OfProcess*> current_{nullptr};
};

HttpClient::HttpClient(HttpOptions options)
    : loop_(std::make_unique<Loop>(std::move(options))) {}

HttpClient::~HttpClient() = default;

void HttpClient::Start(HttpRequest request, Callback callback) {
  loop_->Get().Add(std::move(request), std::move(callback));
}

Result<HttpResponse> HttpClient::Send(const HttpRequest& request) {
  return std::move(SendAll({&request, 1}).front());
}

std::vector<Result<HttpResponse>> HttpClient::SendAll(
    std::span<const HttpRequest> requests) {
  std::vector<std::optional<Result<HttpResponse>>> answers(requests.size());
  AnswerCount count(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto take = [&answers, &count, i](Result<HttpResponse> answer) {
      answers[i] = std::move(answer);
      count.Arrive();
    };
    try {
      Start(requests[i], take);
    } catch (const std::bad_alloc&) {
      take(OutOfMemoryError());
    }
  }
  count.Wait();
  std::vector<Result<HttpResponse>> results;
  results.reserve(answers.size());
  for (auto& answer : answers) results.push_back(*std::move(answer));
  return results;
}

const HttpOptions& HttpClient::options() const { return loop_->options(); }

HttpCounters HttpClient::counters() const { return loop_->counters(); }

}  // namespace holdfast
