// One attempt at a request: the libcurl handle set up for it, the destination
// of the answer's bytes, and the outcome.
//
// Thread-safety: belongs to the client's thread. Ownership: borrows the handle,
// and resets it at the end; the caller owns the request's body and target.
// Errors: AttemptEnd says which failures may be retried.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stores/http/curl_library.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct AttemptSettings {
  std::chrono::milliseconds connect_deadline{10'000};
  std::string ca_bundle;
  std::string user_agent;
};

struct AttemptEnd {
  enum class Kind : uint8_t {
    kAnswer,        // see `response`
    kNotConnected,  // the request certainly did not arrive
    kLost,          // the connection, before the answer was complete
    kFatal,         // a retry would fail the same way
  };
  Kind kind = Kind::kAnswer;
  HttpResponse response;
  Status why;  // for all kinds but kAnswer; without the URL
};

class Attempt {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Attempt(const CurlCalls& curl, CURL* easy);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Sets up the handle for `request`, which is in the form to be sent. If
  // `is_hedge`, the answer goes to the attempt's own buffer instead of the
  // target; ResourceExhausted if no memory is left for the buffer.
  Status SetUp(HttpRequest request, const AttemptSettings& settings,
               bool is_hedge);

  CURL* easy() const { return easy_; }
  // Returns when a byte was last seen to move. The time is only as exact as the
  // calls are frequent.
  TimePoint LastProgress(TimePoint now);
  // Returns the outcome. Call once, after the transfer has ended with `code`.
  AttemptEnd End(CURLcode code);
  // Copies a hedge's answer from its own buffer to the request's target.
  void CopyToTarget();

  uint64_t sent_bytes() const;
  uint64_t received_bytes() const { return received_bytes_; }
  bool has_answer_begun() const { return status_ != 0 || received_bytes_ > 0; }
  uint64_t connection_count() const;
  // Returns how often the request was sent. It is more than once if a
  // kept-alive connection turned out to be dead and libcurl resent the request
  // by itself.
  int send_count() const { return std::max(send_count_, 1); }

 private:
  static int OnSend(void* self, char*, char*, int, int);
  static size_t OnRead(char* out, size_t size, size_t count, void* self);
  static int OnSeek(void* self, curl_off_t offset, int origin);
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);

  void SetUpMethod();
  void SetUpConnection(const AttemptSettings& settings);
  Status SetUpHeaders();
  bool TakeHeaderLine(std::string_view line);
  bool TakeBody(std::string_view bytes);
  bool TakeTargetBody(std::string_view bytes);
  size_t ReadBody(std::span<char> out);
  bool SeekBody(uint64_t offset);
  AttemptEnd EndOfAnswer();
  AttemptEnd EndOfFailure(CURLcode code);
  // Returns the value of an integer CURLINFO_..._T.
  curl_off_t Info(CURLINFO what) const;
  template <typename Value>
  void Set(CURLoption option, Value value) {
    curl_.easy_setopt(easy_, option, value);
  }

  // Why the attempt stopped reading the answer.
  enum class Stop : uint8_t {
    kNone,
    kTooLong,
    kCutOff,
    kHeadersTooLong,
    kNoMemory
  };

  const CurlCalls& curl_;
  CURL* const easy_;
  HttpRequest request_;
  curl_slist* header_list_ = nullptr;
  char error_text_[CURL_ERROR_SIZE] = {};

  uint64_t body_bytes_ = 0;  // of the request
  int send_count_ = 0;
  size_t piece_index_ = 0;
  size_t piece_offset_ = 0;

  int status_ = 0;
  HttpHeaders headers_;
  uint64_t header_bytes_ = 0;
  std::string body_;
  Buffer hedge_buffer_;
  std::span<char> target_;
  uint64_t target_bytes_ = 0;
  uint64_t received_bytes_ = 0;
  Stop stop_ = Stop::kNone;

  TimePoint last_progress_ = {};
  uint64_t moved_bytes_seen_ = 0;
};

}  // namespace holdfast
