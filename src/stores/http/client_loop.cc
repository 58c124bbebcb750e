#include "stores/http/client_loop.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/start_threads.h"
#include "ground/base/status_macros.h"
#include "ground/record/recorder.h"
#include "ground/record/watchdog.h"
#include "stores/http/ca_bundle.h"
#include "stores/http/http_date.h"
#include "stores/http/redirect.h"
#include "stores/http/retry.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often cancel tokens, deadlines and stalls are checked.
constexpr milliseconds kSweepEvery{50};
constexpr milliseconds kHedgeSweepEvery{10};
constexpr int kHedgesMax = 2;  // per request
// A copy is replaced by another when it has received no byte for this long, and
// for this many times its allowed lag.
constexpr milliseconds kSilence{1'000};
constexpr int kSilenceFactor = 3;
// The lag allowed while no comparable request has finished yet.
constexpr std::chrono::microseconds kUnknownLag{3'000'000};
constexpr milliseconds kIdleWait{600'000};
constexpr milliseconds kLogEvery{10'000};
// A request is reported as late when it takes longer than kLateTime, and longer
// than kLateFactor times the time after which a request of its size is hedged.
constexpr milliseconds kLateTime{3'000};
constexpr int kLateFactor = 3;
// These bounds apply to a server that has never answered: its name is probably
// wrong, or it is down. Twelve attempts would take a minute to find that out.
constexpr int kFirstContactAttempts = 4;
constexpr milliseconds kFirstContactTime{3'000};
constexpr int kRedirectsMax = 5;

// Blocks all signals on this thread: a library's thread must not run the
// program's signal handlers, and TLS writes to a closed connection raise
// SIGPIPE.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

Status RequestContext(const HttpRequest& request, const Status& status) {
  return status.WithContext(request.method + " " + RedactUrl(request.url));
}

uint64_t SizeOf(const HttpRequest& request) {
  uint64_t byte_count = request.target.size();
  for (const std::string_view piece : request.body) byte_count += piece.size();
  return byte_count;
}

Status CheckRequest(const HttpRequest& request) {
  HF_ASSIGN_OR_RETURN(const Url url, ParseUrl(request.url));
  if (url.scheme != "http" && url.scheme != "https") {
    return InvalidArgumentError("URL " + RedactUrl(request.url) +
                                ": is neither http:// nor https://");
  }
  return {};
}

bool IsHttps(std::string_view url) {
  const Result<Url> parsed = ParseUrl(url);
  return parsed.ok() && parsed->scheme == "https";
}

std::string OriginOfUrl(std::string_view url) {
  const Result<Url> parsed = ParseUrl(url);
  return parsed.ok() ? OriginOf(*parsed) : std::string();
}

milliseconds Until(Attempt::TimePoint from, Attempt::TimePoint to) {
  return std::chrono::ceil<milliseconds>(to - from);
}

std::string StatusText(int status) {
  return "the server answers " + std::to_string(status);
}

}  // namespace

ClientLoop::ClientLoop(const HttpOptions& options)
    : options_(options),
      limit_(options.in_flight_max),
      random_(options.jitter_seed != 0 ? options.jitter_seed
                                       : std::random_device()()) {
  settings_.connect_deadline = options_.connect_deadline;
  settings_.user_agent = options_.user_agent;
}

ClientLoop::~ClientLoop() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (multi_ != nullptr) curl_->multi_wakeup(multi_);
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ClientLoop::Add(HttpRequest request, HttpClient::Callback callback) {
  auto transfer = std::make_unique<Transfer>();
  transfer->request = std::move(request);
  transfer->callback = std::move(callback);
  transfer->added = steady_clock::now();
  Count(&RequestCounts::requests);
  std::unique_lock lock(mutex_);
  if (!HasThread()) {
    lock.unlock();
    FinishTransfer(std::move(transfer),
                   ResourceExhaustedError("HTTP: the system gives no thread"));
    return;
  }
  new_.push_back(std::move(transfer));
  // If another new request is in the queue, the thread has already been woken.
  if (new_.size() > 1) return;
  if (multi_ != nullptr) curl_->multi_wakeup(multi_);
  wake_.notify_one();
}

// Returns false when the system cannot start a thread; the next request tries
// again.
bool ClientLoop::HasThread() {
  if (thread_.joinable()) return true;
  std::optional<std::thread> thread = TryStartThread([this] { Run(); });
  if (thread) thread_ = *std::move(thread);
  return thread.has_value();
}

void ClientLoop::Count(Counter counter, uint64_t count) {
  counts_.*counter += count;
  RequestCounts::OfProcess().*counter += count;
}

void ClientLoop::Run() {
  BlockSignals();
  while (RunRound()) {
  }
  FailEverything(CancelledError("the HTTP client was closed"));
  CloseCurl();
}

// Does one round of the loop. Returns false when the client is being destroyed.
bool ClientLoop::RunRound() {
  try {
    if (!TakeNew()) return false;
    if (multi_ == nullptr && !OpenCurl()) return true;
    // Called before multi_perform, so that this round's transfers begin
    // immediately, and again below, because this round may end transfers and
    // make room for others.
    StartWaiting(steady_clock::now());
    int running_count = 0;
    curl_->multi_perform(multi_, &running_count);
    TakeFinished();
    Sweep(steady_clock::now());
    const TimePoint now = steady_clock::now();
    StartWaiting(now);
    curl_->multi_poll(multi_, nullptr, 0, PollMilliseconds(now), nullptr);
  } catch (const std::bad_alloc&) {
    FailForWantOfMemory();
  }
  return true;
}

bool ClientLoop::TakeNew() {
  std::unique_lock lock(mutex_);
  if (multi_ == nullptr) {
    // Without libcurl there is no handle to poll, so the thread waits on the
    // condition variable.
    wake_.wait(lock, [&] { return is_closed_ || !new_.empty(); });
  }
  while (!new_.empty()) {
    // Memory is allocated before the transfer leaves new_, so that a bad_alloc
    // does not lose the transfer.
    waiting_.push_back(nullptr);
    std::swap(waiting_.back(), new_.front());
    new_.pop_front();
  }
  return !is_closed_;
}

bool ClientLoop::OpenCurl() {
  const Result<const CurlCalls*> curl = LoadCurl();
  if (!curl.ok()) {
    FailEverything(curl.status());
    return false;
  }
  const Result<std::string> ca_bundle = FindCaBundle(options_.ca_bundle);
  if (ca_bundle.ok()) settings_.ca_bundle = *ca_bundle;
  ca_status_ = ca_bundle.status();
  curl_ = *curl;
  CURLM* multi = curl_->multi_init();
  if (multi == nullptr) {
    FailEverything(ResourceExhaustedError("libcurl cannot begin"));
    return false;
  }
  curl_->multi_setopt(multi, CURLMOPT_PIPELINING,
                      static_cast<long>(CURLPIPE_NOTHING));
  curl_->multi_setopt(multi, CURLMOPT_MAXCONNECTS,
                      static_cast<long>(options_.in_flight_max) * 2);
  const std::lock_guard lock(mutex_);
  multi_ = multi;
  // Requests that arrived in the meantime could not wake a handle that did not
  // exist yet.
  if (!new_.empty()) curl_->multi_wakeup(multi_);
  return true;
}

void ClientLoop::CloseCurl() {
  if (multi_ == nullptr) return;
  for (CURL* easy : idle_handles_) curl_->easy_cleanup(easy);
  const std::lock_guard lock(mutex_);
  curl_->multi_cleanup(std::exchange(multi_, nullptr));
}

CURL* ClientLoop::TakeHandle() {
  if (idle_handles_.empty()) {
    // Reserves room for all handles in use, so that making a handle idle
    // allocates no memory.
    idle_handles_.reserve(by_handle_.size() + 1);
    return curl_->easy_init();
  }
  CURL* easy = idle_handles_.back();
  idle_handles_.pop_back();
  return easy;
}

void ClientLoop::StartWaiting(TimePoint now) {
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    waiting_.push_front(std::move(delayed_.begin()->second));
    delayed_.erase(delayed_.begin());
  }
  const auto limit = static_cast<size_t>(limit_.limit());
  while (!waiting_.empty() && by_handle_.size() < limit) {
    active_.push_front(std::move(waiting_.front()));
    waiting_.pop_front();
    StartAttempt(active_.begin(), now, false);
  }
}

// Starts an attempt. Returns false if none was started; the transfer is then
// finished, unless the attempt was a hedge.
bool ClientLoop::StartAttempt(ActiveList::iterator active, TimePoint now,
                              bool is_hedge) {
  Transfer& transfer = **active;
  // The deadline counts from the first attempt, because the server is not to
  // blame for the time that a request waits for its turn.
  if (!transfer.deadline) {
    transfer.first_begun = now;
    if (transfer.request.may_hedge) {
      hedge_budget_.OnAsked(SizeOf(transfer.request));
    }
    transfer.deadline =
        now + transfer.request.deadline.value_or(options_.request_deadline);
  }
  RunningAttempt running;
  running.begun = now;
  running.limit_epoch = limit_.epoch();
  const Status status = SetUpAttempt(transfer, running, is_hedge);
  if (!status.ok()) {
    if (!is_hedge) Finish(active, RequestContext(transfer.request, status));
    return false;
  }
  Count(&RequestCounts::attempts);
  transfer.attempt_count += is_hedge ? 0 : 1;
  CURL* const easy = running.attempt->easy();
  transfer.running.push_back(std::move(running));
  by_handle_[easy] = active;
  curl_->multi_add_handle(multi_, easy);
  return true;
}

Status ClientLoop::SetUpAttempt(Transfer& transfer, RunningAttempt& running,
                                bool is_hedge) {
  HF_RETURN_IF_ERROR(CheckRequest(transfer.request));
  HttpRequest request = transfer.request;
  if (request.prepare) {
    // A signature contains the time, so every attempt is signed again.
    HF_RETURN_IF_ERROR(transfer.request.prepare(request));
    HF_RETURN_IF_ERROR(CheckRequest(request));
  }
  if (IsHttps(request.url)) HF_RETURN_IF_ERROR(ca_status_);
  CURL* easy = TakeHandle();
  if (easy == nullptr) return ResourceExhaustedError("no memory");
  running.attempt = std::make_unique<Attempt>(*curl_, easy);
  const Status status =
      running.attempt->SetUp(std::move(request), settings_, is_hedge);
  if (!status.ok()) {
    running.attempt.reset();
    idle_handles_.push_back(easy);
  }
  return status;
}

void ClientLoop::TakeFinished() {
  int left_count = 0;
  while (const CURLMsg* message = curl_->multi_info_read(multi_, &left_count)) {
    if (message->msg == CURLMSG_DONE) {
      OnFinished(message->easy_handle, message->data.result);
    }
  }
}

ClientLoop::RunningAttempt ClientLoop::TakeRunning(Transfer& transfer,
                                                   CURL* easy) {
  const auto found =
      std::find_if(transfer.running.begin(), transfer.running.end(),
                   [&](const RunningAttempt& running) {
                     return running.attempt->easy() == easy;
                   });
  assert(found != transfer.running.end());
  RunningAttempt running = std::move(*found);
  transfer.running.erase(found);
  return running;
}

void ClientLoop::CountBytes(const Attempt& attempt) {
  Count(&RequestCounts::sent_bytes, attempt.sent_bytes());
  Count(&RequestCounts::received_bytes, attempt.received_bytes());
  Count(&RequestCounts::connections, attempt.connection_count());
}

void ClientLoop::Release(RunningAttempt running) {
  CURL* easy = running.attempt->easy();
  by_handle_.erase(easy);
  curl_->multi_remove_handle(multi_, easy);
  running.attempt.reset();  // resets the handle
  idle_handles_.push_back(easy);
}

void ClientLoop::Drop(RunningAttempt running) {
  CountBytes(*running.attempt);
  Release(std::move(running));
}

void ClientLoop::DropAll(Transfer& transfer) {
  for (RunningAttempt& running : transfer.running) Drop(std::move(running));
  transfer.running.clear();
}

void ClientLoop::OnFinished(CURL* easy, CURLcode code) {
  const auto found = by_handle_.find(easy);
  if (found == by_handle_.end()) return;
  const ActiveList::iterator active = found->second;
  Transfer& transfer = **active;
  RunningAttempt running = TakeRunning(transfer, easy);
  CountBytes(*running.attempt);  // before the answer is reported
  AttemptEnd end = running.attempt->End(code);
  transfer.unseen_send_count += running.attempt->send_count() - 1;
  const TimePoint now = steady_clock::now();
  if (running.attempt->has_answer_begun()) {
    answered_origins_.insert(OriginOfUrl(transfer.request.url));
  }
  if (end.kind == AttemptEnd::Kind::kAnswer) {
    OnAnswer(active, running, std::move(end), now);
  } else {
    OnTrouble(active, std::move(end), now);
  }
  Release(std::move(running));
}

void ClientLoop::OnAnswer(ActiveList::iterator active,
                          const RunningAttempt& running, AttemptEnd end,
                          TimePoint now) {
  Transfer& transfer = **active;
  const int status = end.response.status;
  // The epoch identifies the limit under which the attempt was sent, so that
  // many 503s in one burst halve the limit once.
  if (IsThrottleStatus(status)) {
    Count(&RequestCounts::throttled);
    limit_.OnThrottled(running.limit_epoch);
  } else if (!IsRetryStatus(status)) {
    limit_.OnAnswer();
  }
  if (IsRetryStatus(status)) {
    OnTrouble(active, std::move(end), now);
    return;
  }
  if (FollowRedirect(active, end.response)) return;
  latencies_.Add(SizeOf(transfer.request),
                 std::chrono::duration_cast<std::chrono::microseconds>(
                     now - running.begun));
  if (transfer.hedge_count > 0) SettleHedge(transfer);
  // The other attempts are dropped, so that nothing else writes into the
  // target.
  DropAll(transfer);
  running.attempt->CopyToTarget();
  end.response.attempt_count =
      transfer.attempt_count + transfer.unseen_send_count;
  Finish(active, std::move(end.response));
}

// REQUIRES: one attempt has received the answer and has been removed from
// transfer.running.
void ClientLoop::SettleHedge(const Transfer& transfer) {
  uint64_t wasted_bytes = 0;
  for (const RunningAttempt& slower : transfer.running) {
    wasted_bytes += slower.attempt->received_bytes();
  }
  hedge_budget_.OnAnswered(
      SizeOf(transfer.request) * static_cast<uint64_t>(transfer.hedge_count),
      wasted_bytes);
  Count(&RequestCounts::hedge_bytes, wasted_bytes);
}

bool ClientLoop::FollowRedirect(ActiveList::iterator active,
                                const HttpResponse& response) {
  Transfer& transfer = **active;
  if (transfer.redirect_count >= kRedirectsMax ||
      !FollowsRedirect(transfer.request, response)) {
    return false;
  }
  DropAll(transfer);
  ++transfer.redirect_count;
  // A redirect is progress, so it does not use up an attempt.
  --transfer.attempt_count;
  waiting_.push_front(std::move(*active));
  active_.erase(active);
  return true;
}

// Returns true if the server has never answered and enough attempts have
// failed. If the server has answered before, waiting is worthwhile, whatever
// its current failure is.
bool ClientLoop::IsOutOfReach(const Transfer& transfer, const AttemptEnd& end,
                              TimePoint now) const {
  if (end.kind == AttemptEnd::Kind::kAnswer ||
      answered_origins_.contains(OriginOfUrl(transfer.request.url))) {
    return false;
  }
  if (transfer.attempt_count >= kFirstContactAttempts) return true;
  // Two attempts are enough if connections time out, since each then takes
  // long.
  return end.kind == AttemptEnd::Kind::kNotConnected &&
         transfer.attempt_count > 1 &&
         now - transfer.first_begun >= kFirstContactTime;
}

bool ClientLoop::MayTryAgain(const Transfer& transfer, const AttemptEnd& end,
                             TimePoint now) const {
  using Kind = AttemptEnd::Kind;
  if (end.kind == Kind::kFatal) return false;
  if (IsOutOfReach(transfer, end, now)) return false;
  if (transfer.attempt_count >= options_.attempt_count_max) return false;
  if (transfer.request.may_repeat) return true;
  // A request that must not repeat is sent again only when the server certainly
  // did not act on it: it was never reached, or it refused (429).
  return end.kind == Kind::kNotConnected ||
         (end.kind == Kind::kAnswer && end.response.status == 429);
}

milliseconds ClientLoop::DelayOf(const Transfer& transfer,
                                 const AttemptEnd& end) {
  const double random = std::uniform_real_distribution<double>()(random_);
  const milliseconds delay =
      BackoffDelay(options_.backoff_first, options_.backoff_max,
                   transfer.attempt_count, random);
  const auto asked = FindHeader(end.response.headers, "Retry-After");
  // A Retry-After date is by the server's clock, so it is compared with the
  // answer's own Date.
  if (!asked) return delay;
  const auto date = FindHeader(end.response.headers, "Date");
  const auto server_now = ParseHttpDate(date.value_or(""));
  const int64_t now_s = server_now.value_or(time(nullptr));
  return std::max(delay, ParseRetryAfter(*asked, now_s).value_or(delay));
}

void ClientLoop::OnTrouble(ActiveList::iterator active, AttemptEnd end,
                           TimePoint now) {
  Transfer& transfer = **active;
  const bool is_answer = end.kind == AttemptEnd::Kind::kAnswer;
  transfer.last_trouble = is_answer ? StatusText(end.response.status)
                                    : std::string(end.why.message());
  // With a hedge, the other attempt may still succeed.
  if (!transfer.running.empty() && end.kind != AttemptEnd::Kind::kFatal) return;
  DropAll(transfer);
  const bool may_try_again = MayTryAgain(transfer, end, now);
  const milliseconds delay =
      may_try_again ? DelayOf(transfer, end) : milliseconds(0);
  // A wait that would end after the deadline is not started.
  if (may_try_again && now + delay < *transfer.deadline) {
    Delay(active, delay, now);
    return;
  }
  if (is_answer) {
    end.response.attempt_count =
        transfer.attempt_count + transfer.unseen_send_count;
    Finish(active, std::move(end.response));
    return;
  }
  Status status = RequestContext(transfer.request, end.why);
  if (transfer.attempt_count > 1) {
    status =
        Status(status.code(), std::string(status.message()) + " (attempt " +
                                  std::to_string(transfer.attempt_count) + ")");
  }
  Finish(active, std::move(status));
}

void ClientLoop::Delay(ActiveList::iterator active, milliseconds delay,
                       TimePoint now) {
  Count(&RequestCounts::retries);
  Log(now, (*active)->request.url);
  delayed_.emplace(now + delay, std::move(*active));
  active_.erase(active);
}

void ClientLoop::Log(TimePoint now, std::string_view url) {
  if (!options_.log || now - last_log_ < kLogEvery) return;
  last_log_ = now;
  const uint64_t throttled = counts_.throttled;
  const uint64_t retries = counts_.retries;
  options_.log(
      OriginOfUrl(url) + ": " + std::to_string(retries - logged_retries_) +
      " requests sent again (" + std::to_string(throttled - logged_throttled_) +
      " times the server asked to slow down), at most " +
      std::to_string(limit_.limit()) + " in flight now");
  logged_throttled_ = throttled;
  logged_retries_ = retries;
}

std::optional<Status> ClientLoop::EndOf(const Transfer& transfer,
                                        TimePoint now) const {
  const HttpRequest& request = transfer.request;
  if (request.cancel != nullptr && request.cancel->cancelled()) {
    return RequestContext(request, request.cancel->Check());
  }
  if (!transfer.deadline || now < *transfer.deadline) return std::nullopt;
  const auto deadline = request.deadline.value_or(options_.request_deadline);
  std::string why = "no answer within " + std::to_string(deadline.count()) +
                    " ms (attempt " + std::to_string(transfer.attempt_count);
  if (!transfer.last_trouble.empty())
    why += "; before: " + transfer.last_trouble;
  return RequestContext(request, DeadlineExceededError(why + ")"));
}

void ClientLoop::Sweep(TimePoint now) {
  if (now - last_sweep_ < (options_.hedge ? kHedgeSweepEvery : kSweepEvery)) {
    return;
  }
  last_sweep_ = now;
  SweepWaiting(now);
  for (auto active = active_.begin(); active != active_.end();) {
    // Each of these calls may end the transfer and remove `active` from the
    // list.
    const auto next = std::next(active);
    if (const auto end = EndOf(**active, now)) {
      Finish(active, *end);
    } else {
      NameIfLate(**active, now);
      SweepHedge(active, now);
      SweepStalled(active, now);
    }
    active = next;
  }
}

// Reports a request that takes much longer than others of its size.
void ClientLoop::NameIfLate(Transfer& transfer, TimePoint now) {
  const auto took = now - transfer.first_begun;
  const auto usual = latencies_.LagsAfter(SizeOf(transfer.request));
  if (took < kLateTime || (usual && took < kLateFactor * *usual)) return;
  const bool was_named = transfer.named != TimePoint();
  if (was_named && took < 3 * (transfer.named - transfer.first_begun)) return;
  transfer.named = now;
  const auto range = FindHeader(transfer.request.headers, "Range");
  const double seconds = std::chrono::duration<double>(took).count();
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  std::string line =
      transfer.request.method + " " + RedactUrl(transfer.request.url);
  if (range) line += " (" + std::string(*range) + ")";
  line += " has taken " + std::string(text) + " and is not done (attempt " +
          std::to_string(transfer.attempt_count);
  if (!transfer.last_trouble.empty()) {
    line += "; before: " + transfer.last_trouble;
  }
  SayLate(line + ")");
}

void ClientLoop::Record(const Transfer& transfer) {
  const TimePoint now = steady_clock::now();
  const bool was_begun = transfer.first_begun != TimePoint();
  const auto nanoseconds = [](TimePoint::duration duration) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(duration)
        .count();
  };
  PhaseEvent event;
  event.phase = Phase::kRequest;
  event.begun_ns = nanoseconds(transfer.added.time_since_epoch());
  event.took_ns = nanoseconds(now - transfer.added);
  event.waited_ns =
      nanoseconds((was_begun ? transfer.first_begun : now) - transfer.added);
  event.byte_count = SizeOf(transfer.request);
  event.attempt_count = static_cast<uint16_t>(transfer.attempt_count);
  event.SetSubject(RedactUrl(transfer.request.url));
  Recorder::Get().Add(event);
}

void ClientLoop::SweepWaiting(TimePoint now) {
  std::vector<std::pair<TransferPtr, Status>> ended;
  const auto take_ended = [&](TransferPtr& transfer) {
    std::optional<Status> end = EndOf(*transfer, now);
    if (end) ended.emplace_back(std::move(transfer), *std::move(end));
    return transfer == nullptr;
  };
  std::erase_if(waiting_, take_ended);
  for (auto entry = delayed_.begin(); entry != delayed_.end();) {
    entry =
        take_ended(entry->second) ? delayed_.erase(entry) : std::next(entry);
  }
  for (auto& [transfer, status] : ended) {
    FinishTransfer(std::move(transfer), std::move(status));
  }
}

void ClientLoop::SweepStalled(ActiveList::iterator active, TimePoint now) {
  std::vector<CURL*> stalled;
  for (const RunningAttempt& running : (*active)->running) {
    if (now - running.attempt->LastProgress(now) >= options_.stall_deadline) {
      stalled.push_back(running.attempt->easy());
    }
  }
  for (CURL* easy : stalled) {
    // With two attempts, handling the first may have ended the transfer, and
    // with it the second attempt.
    if (!by_handle_.contains(easy)) continue;
    RunningAttempt running = TakeRunning(**active, easy);
    const uint64_t received_bytes = running.attempt->received_bytes();
    Drop(std::move(running));
    OnTrouble(active,
              {AttemptEnd::Kind::kLost,
               {},
               UnavailableError(
                   "nothing came for " +
                   std::to_string(options_.stall_deadline.count()) +
                   " ms, after " + std::to_string(received_bytes) + " bytes")},
              now);
  }
}

// Sends a copy of a request that lags, and another copy when the first one
// lags, too: a server that stalls one request in a hundred also stalls one copy
// in a hundred.
//
// The budget keeps copies from slowing down a server that is slow overall. When
// the budget is used up, the latest attempt is replaced by a new one if it has
// been silent for a very long time. It has received nothing, so no byte is
// fetched twice.
void ClientLoop::SweepHedge(ActiveList::iterator active, TimePoint now) {
  Transfer& transfer = **active;
  if (!options_.hedge || !transfer.request.may_hedge ||
      transfer.hedge_count == kHedgesMax || transfer.request.method != "GET" ||
      transfer.running.empty()) {
    return;
  }
  const uint64_t byte_count = SizeOf(transfer.request);
  const auto lags_after =
      latencies_.LagsAfter(byte_count).value_or(kUnknownLag);
  const auto lags_for = now - transfer.running.back().begun;
  if (lags_for < lags_after) return;
  if (hedge_budget_.MayHedge(byte_count)) {
    ++transfer.hedge_count;
    if (!StartAttempt(active, now, true)) return;
    hedge_budget_.OnHedge(byte_count);
    Count(&RequestCounts::hedges);
    return;
  }
  const Attempt& last = *transfer.running.back().attempt;
  const bool is_silent = last.received_bytes() == 0 && lags_for >= kSilence &&
                         lags_for >= kSilenceFactor * lags_after;
  if (!is_silent || transfer.replaced_count == kHedgesMax) return;
  CURL* const silent = last.easy();
  ++transfer.replaced_count;
  if (!StartAttempt(active, now, true)) return;
  Drop(TakeRunning(transfer, silent));
  Count(&RequestCounts::hedges);
}

int ClientLoop::PollMilliseconds(TimePoint now) const {
  milliseconds wait = kIdleWait;
  if (!active_.empty() || !waiting_.empty() || !delayed_.empty()) {
    wait = options_.hedge ? kHedgeSweepEvery : kSweepEvery;
  }
  if (!delayed_.empty()) {
    wait = std::min(wait, Until(now, delayed_.begin()->first));
  }
  return static_cast<int>(std::max<int64_t>(wait.count(), 0));
}

void ClientLoop::Finish(ActiveList::iterator active,
                        Result<HttpResponse> result) {
  TransferPtr transfer = std::move(*active);
  active_.erase(active);
  DropAll(*transfer);
  FinishTransfer(std::move(transfer), std::move(result));
}

void ClientLoop::FinishTransfer(TransferPtr transfer,
                                Result<HttpResponse> result) {
  // The record is left out if memory is short.
  (void)CatchBadAlloc([&] {
    Record(*transfer);
    return Status();
  });
  const HttpClient::Callback callback = std::move(transfer->callback);
  // The callback may free what the request points to, so the request is
  // destroyed first.
  transfer.reset();
  callback(std::move(result));
}

void ClientLoop::FailEverything(const Status& status) {
  while (!active_.empty()) {
    Finish(active_.begin(),
           RequestContext((*active_.begin())->request, status));
  }
  for (auto& [time, transfer] : delayed_) {
    waiting_.push_back(std::move(transfer));
  }
  delayed_.clear();
  while (!waiting_.empty()) {
    TransferPtr transfer = std::move(waiting_.front());
    waiting_.pop_front();
    Status with_url = RequestContext(transfer->request, status);
    FinishTransfer(std::move(transfer), std::move(with_url));
  }
}

// Fails all requests, and allocates no memory itself. Destroys the handles,
// too, because a bad_alloc may have left their attempts half set up.
void ClientLoop::FailForWantOfMemory() {
  const auto fail = [this](TransferPtr transfer) {
    if (transfer != nullptr) {
      FinishTransfer(std::move(transfer), OutOfMemoryError());
    }
  };
  for (const auto& [easy, active] : by_handle_) {
    curl_->multi_remove_handle(multi_, easy);
  }
  for (const TransferPtr& transfer : active_) {
    if (transfer != nullptr) transfer->running.clear();
  }
  for (const auto& [easy, active] : by_handle_) curl_->easy_cleanup(easy);
  by_handle_.clear();
  while (!active_.empty()) {
    TransferPtr transfer = std::move(active_.front());
    active_.pop_front();
    fail(std::move(transfer));
  }
  while (!delayed_.empty()) {
    TransferPtr transfer = std::move(delayed_.begin()->second);
    delayed_.erase(delayed_.begin());
    fail(std::move(transfer));
  }
  while (!waiting_.empty()) {
    TransferPtr transfer = std::move(waiting_.front());
    waiting_.pop_front();
    fail(std::move(transfer));
  }
  while (true) {
    TransferPtr transfer;
    {
      const std::lock_guard lock(mutex_);
      if (new_.empty()) return;
      transfer = std::move(new_.front());
      new_.pop_front();
    }
    fail(std::move(transfer));
  }
}

}  // namespace holdfast
