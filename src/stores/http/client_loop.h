// The thread of an HttpClient: accepts requests, keeps as many attempts in
// flight as the limit allows, and gives each request exactly one answer.
//
// A request goes through these states: new; waiting for its turn; active, with
// one attempt (more while hedged); possibly delayed, until its next attempt;
// done.
// Thread-safety: Add and counters may be called from any thread; everything
// else belongs to the loop's thread. Ownership: owns requests until their
// callback has run.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ground/record/request_counts.h"
#include "stores/http/attempt.h"
#include "stores/http/curl_library.h"
#include "stores/http/hedge_budget.h"
#include "stores/http/http_client.h"
#include "stores/http/in_flight_limit.h"
#include "stores/http/latency_book.h"

namespace holdfast {

class ClientLoop {
 public:
  explicit ClientLoop(const HttpOptions& options);
  // Cancels all requests, and returns when their callbacks have run.
  ~ClientLoop();
  ClientLoop(const ClientLoop&) = delete;
  ClientLoop& operator=(const ClientLoop&) = delete;

  void Add(HttpRequest request, HttpClient::Callback callback);
  HttpCounters counters() const { return counts_.Read(); }

 private:
  using TimePoint = Attempt::TimePoint;
  using milliseconds = std::chrono::milliseconds;

  struct RunningAttempt {
    std::unique_ptr<Attempt> attempt;
    TimePoint begun;
    uint64_t limit_epoch = 0;
  };

  struct Transfer {
    HttpRequest request;  // with the URL and headers after redirects
    HttpClient::Callback callback;
    TimePoint added = {};
    TimePoint first_begun = {};
    TimePoint named = {};               // when it was last reported as late
    std::optional<TimePoint> deadline;  // from the first attempt on
    int attempt_count = 0;
    int unseen_send_count = 0;  // resends by libcurl itself
    int redirect_count = 0;
    int hedge_count = 0;
    int replaced_count = 0;
    std::string last_trouble;  // why the previous attempt failed
    std::vector<RunningAttempt> running;
  };
  using TransferPtr = std::unique_ptr<Transfer>;
  using ActiveList = std::list<TransferPtr>;

  using Counter = std::atomic<uint64_t> RequestCounts::*;
  // Adds to the counters of this client and of the process.
  void Count(Counter counter, uint64_t count = 1);

  bool HasThread();  // REQUIRES: mutex_ is held
  void Run();
  bool RunRound();
  void FailForWantOfMemory();
  bool OpenCurl();  // on failure, fails the waiting requests
  void CloseCurl();
  bool TakeNew();  // false if the client is being destroyed
  void StartWaiting(TimePoint now);
  bool StartAttempt(ActiveList::iterator active, TimePoint now, bool is_hedge);
  Status SetUpAttempt(Transfer& transfer, RunningAttempt& running,
                      bool is_hedge);
  void TakeFinished();
  void OnFinished(CURL* easy, CURLcode code);
  void OnAnswer(ActiveList::iterator active, const RunningAttempt& running,
                AttemptEnd end, TimePoint now);
  bool FollowRedirect(ActiveList::iterator active,
                      const HttpResponse& response);
  void OnTrouble(ActiveList::iterator active, AttemptEnd end, TimePoint now);
  void Delay(ActiveList::iterator active, milliseconds delay, TimePoint now);
  bool MayTryAgain(const Transfer& transfer, const AttemptEnd& end,
                   TimePoint now) const;
  bool IsOutOfReach(const Transfer& transfer, const AttemptEnd& end,
                    TimePoint now) const;
  milliseconds DelayOf(const Transfer& transfer, const AttemptEnd& end);
  void Sweep(TimePoint now);
  void SweepWaiting(TimePoint now);
  void SweepStalled(ActiveList::iterator active, TimePoint now);
  void SweepHedge(ActiveList::iterator active, TimePoint now);
  std::optional<Status> EndOf(const Transfer& transfer, TimePoint now) const;
  int PollMilliseconds(TimePoint now) const;

  RunningAttempt TakeRunning(Transfer& transfer, CURL* easy);
  void CountBytes(const Attempt& attempt);
  void Release(RunningAttempt running);  // makes the handle idle again
  void Drop(RunningAttempt running);     // counts its bytes, then releases it
  void DropAll(Transfer& transfer);
  void Finish(ActiveList::iterator active, Result<HttpResponse> result);
  void FinishTransfer(TransferPtr transfer, Result<HttpResponse> result);
  void FailEverything(const Status& status);
  void SettleHedge(const Transfer& transfer);
  void NameIfLate(Transfer& transfer, TimePoint now);
  static void Record(const Transfer& transfer);
  void Log(TimePoint now, std::string_view url);
  CURL* TakeHandle();

  const HttpOptions options_;
  AttemptSettings settings_;
  Status ca_status_;  // why certificates cannot be checked

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<TransferPtr> new_;  // guarded by mutex_
  bool is_closed_ = false;       // guarded by mutex_
  CURLM* multi_ = nullptr;       // written with mutex_, by the thread

  const CurlCalls* curl_ = nullptr;
  std::vector<CURL*> idle_handles_;
  std::deque<TransferPtr> waiting_;
  std::multimap<TimePoint, TransferPtr> delayed_;
  ActiveList active_;
  std::unordered_map<CURL*, ActiveList::iterator> by_handle_;
  InFlightLimit limit_;
  LatencyBook latencies_;
  HedgeBudget hedge_budget_;
  std::mt19937_64 random_;
  // "https://host:port" of every server that has ever begun to answer.
  std::set<std::string> answered_origins_;
  TimePoint last_sweep_ = {};
  TimePoint last_log_ = {};
  uint64_t logged_throttled_ = 0;
  uint64_t logged_retries_ = 0;

  RequestCounts counts_;
  std::thread thread_;  // last, as it uses all above; starts on demand
};

}  // namespace holdfast
