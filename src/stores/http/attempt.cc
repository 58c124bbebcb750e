#include "stores/http/attempt.h"

#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

constexpr uint64_t kHeaderBytesMax = 256 << 10;
constexpr int64_t kReceiveBytesMax = 512 << 10;
constexpr int64_t kSendBytesMax = 2 << 20;
constexpr int64_t kBufferBytesMin = 64 << 10;

// Opens sockets with SOCK_CLOEXEC, because programs that the process starts
// would inherit libcurl's sockets otherwise.
curl_socket_t OpenSocket(void*, curlsocktype, curl_sockaddr* address) {
  return socket(address->family, address->socktype | SOCK_CLOEXEC,
                address->protocol);
}

bool HasLineBreak(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) !=
         std::string_view::npos;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// Returns the status of a line like "HTTP/1.1 206 Partial Content"; 0 for any
// other line.
int StatusOfLine(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return 0;
  return ParseNumber<uint16_t>(line.substr(space + 1, 3)).value_or(0);
}

bool IsNotConnected(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_COULDNT_RESOLVE_PROXY;
}

bool IsDistrust(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION ||
         code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR ||
         code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_ENGINE_NOTFOUND ||
         code == CURLE_SSL_ENGINE_SETFAILED;
}

// Returns true for codes whose libcurl messages name only hosts and reasons,
// and nothing of the request, which may contain secrets.
bool HasSafeText(CURLcode code) {
  return IsNotConnected(code) || IsDistrust(code) ||
         code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PARTIAL_FILE;
}

}  // namespace

Attempt::Attempt(const CurlCalls& curl, CURL* easy)
    : curl_(curl), easy_(easy) {}

Attempt::~Attempt() {
  curl_.easy_reset(easy_);
  curl_.slist_free_all(header_list_);
}

Status Attempt::SetUp(HttpRequest request, const AttemptSettings& settings,
                      bool is_hedge) {
  request_ = std::move(request);
  target_ = request_.target;
  // Two attempts must not write into one target. Only the winner copies its
  // bytes there (CopyToTarget).
  if (is_hedge && !target_.empty()) {
    hedge_buffer_ = Buffer::TryAllocate(target_.size());
    if (hedge_buffer_.data() == nullptr) {
      return ResourceExhaustedError("no memory for a second copy");
    }
    target_ = {hedge_buffer_.data(), target_.size()};
  }
  for (const std::string_view piece : request_.body) {
    body_bytes_ += piece.size();
  }
  last_progress_ = std::chrono::steady_clock::now();
  HF_RETURN_IF_ERROR(SetUpHeaders());
  SetUpMethod();
  SetUpConnection(settings);
  return {};
}

Status Attempt::SetUpHeaders() {
  std::vector<std::string> lines;
  bool has_expect = false;
  for (const auto& [name, value] : request_.headers) {
    if (name.empty() || HasLineBreak(name) || HasLineBreak(value) ||
        name.find(':') != std::string::npos) {
      return InvalidArgumentError("a header with a bad name or a line break");
    }
    // libcurl sends "name;" as a header without a value.
    lines.push_back(value.empty() ? name + ";" : name + ": " + value);
    has_expect = has_expect || name == "Expect";
  }
  // Without this line, libcurl would send "Expect: 100-continue" with a body,
  // and would wait a second for a server that does not answer it.
  if (!has_expect) lines.push_back("Expect:");
  for (const std::string& line : lines) {
    curl_slist* longer = curl_.slist_append(header_list_, line.c_str());
    if (longer == nullptr) return ResourceExhaustedError("no memory");
    header_list_ = longer;
  }
  Set(CURLOPT_HTTPHEADER, header_list_);
  return {};
}

void Attempt::SetUpMethod() {
  const std::string& method = request_.method;
  Set(CURLOPT_URL, request_.url.c_str());
  if (method == "HEAD") {
    Set(CURLOPT_NOBODY, 1L);
  } else if (body_bytes_ > 0 || method == "PUT" || method == "POST" ||
             method == "PATCH") {
    Set(CURLOPT_UPLOAD, 1L);
    Set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body_bytes_));
    Set(CURLOPT_READFUNCTION, &Attempt::OnRead);
    Set(CURLOPT_READDATA, static_cast<void*>(this));
    Set(CURLOPT_SEEKFUNCTION, &Attempt::OnSeek);
    Set(CURLOPT_SEEKDATA, static_cast<void*>(this));
    Set(CURLOPT_UPLOAD_BUFFERSIZE,
        static_cast<long>(std::clamp<int64_t>(static_cast<int64_t>(body_bytes_),
                                              kBufferBytesMin, kSendBytesMax)));
  }
  if (method != "HEAD") Set(CURLOPT_CUSTOMREQUEST, method.c_str());
  Set(CURLOPT_HEADERFUNCTION, &Attempt::OnHeader);
  Set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(CURLOPT_WRITEFUNCTION, &Attempt::OnBody);
  Set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  Set(CURLOPT_BUFFERSIZE, static_cast<long>(std::clamp<int64_t>(
                              static_cast<int64_t>(target_.size()),
                              kBufferBytesMin, kReceiveBytesMax)));
}

void Attempt::SetUpConnection(const AttemptSettings& settings) {
  Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Set(CURLOPT_PATH_AS_IS, 1L);
  Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // headers of a proxy's answer
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_TCP_NODELAY, 1L);
  Set(CURLOPT_TCP_KEEPALIVE, 1L);
  Set(CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(settings.connect_deadline.count()));
  Set(CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
  Set(CURLOPT_SSL_VERIFYPEER, 1L);
  Set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!settings.ca_bundle.empty()) {
    Set(CURLOPT_CAINFO, settings.ca_bundle.c_str());
  }
  Set(CURLOPT_USERAGENT, settings.user_agent.c_str());
  Set(CURLOPT_ERRORBUFFER, &error_text_[0]);
  // libcurl resends by itself when a kept-alive connection has died. A request
  // that must not be sent twice gets a fresh connection.
  if (!request_.may_repeat) Set(CURLOPT_FRESH_CONNECT, 1L);
  Set(CURLOPT_PREREQFUNCTION, &Attempt::OnSend);
  Set(CURLOPT_PREREQDATA, static_cast<void*>(this));
}

int Attempt::OnSend(void* self, char*, char*, int, int) {
  ++static_cast<Attempt*>(self)->send_count_;
  return CURL_PREREQFUNC_OK;
}

size_t Attempt::OnRead(char* out, size_t size, size_t count, void* self) {
  return static_cast<Attempt*>(self)->ReadBody({out, size * count});
}

size_t Attempt::ReadBody(std::span<char> out) {
  size_t filled = 0;
  while (filled < out.size() && piece_index_ < request_.body.size()) {
    const std::string_view rest =
        request_.body[piece_index_].substr(piece_offset_);
    const size_t count = std::min(rest.size(), out.size() - filled);
    std::memcpy(out.data() + filled, rest.data(), count);
    filled += count;
    piece_offset_ += count;
    if (count == rest.size()) {
      ++piece_index_;
      piece_offset_ = 0;
    }
  }
  return filled;
}

int Attempt::OnSeek(void* self, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  return static_cast<Attempt*>(self)->SeekBody(static_cast<uint64_t>(offset))
             ? CURL_SEEKFUNC_OK
             : CURL_SEEKFUNC_FAIL;
}

bool Attempt::SeekBody(uint64_t offset) {
  if (offset > body_bytes_) return false;
  piece_index_ = 0;
  while (piece_index_ < request_.body.size() &&
         offset >= request_.body[piece_index_].size()) {
    offset -= request_.body[piece_index_++].size();
  }
  piece_offset_ = offset;
  return true;
}

// No exception may pass through libcurl, which is C.
size_t Attempt::OnHeader(char* data, size_t size, size_t count, void* self) {
  auto& attempt = *static_cast<Attempt*>(self);
  const std::string_view line(data, size * count);
  try {
    return attempt.TakeHeaderLine(line) ? line.size() : 0;
  } catch (const std::bad_alloc&) {
    attempt.stop_ = Stop::kNoMemory;
    return 0;
  }
}

bool Attempt::TakeHeaderLine(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // also after an interim answer (100)
    // With a new status line, the previous headers belonged to an interim
    // answer.
    status_ = StatusOfLine(line);
    headers_.clear();
    return true;
  }
  header_bytes_ += line.size();
  // This keeps a server from filling the memory with headers.
  if (header_bytes_ > kHeaderBytesMax) {
    stop_ = Stop::kHeadersTooLong;
    return false;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  headers_.emplace_back(Trimmed(line.substr(0, colon)),
                        Trimmed(line.substr(colon + 1)));
  return true;
}

size_t Attempt::OnBody(char* data, size_t size, size_t count, void* self) {
  auto& attempt = *static_cast<Attempt*>(self);
  const std::string_view bytes(data, size * count);
  attempt.received_bytes_ += bytes.size();
  try {
    return attempt.TakeBody(bytes) ? bytes.size() : 0;
  } catch (const std::bad_alloc&) {
    attempt.stop_ = Stop::kNoMemory;
    return 0;
  }
}

bool Attempt::TakeBody(std::string_view bytes) {
  if (status_ == request_.target_status && !request_.target.empty()) {
    return TakeTargetBody(bytes);
  }
  const uint64_t room = request_.body_bytes_max - body_.size();
  if (bytes.size() <= room) {
    body_ += bytes;
    return true;
  }
  body_ += bytes.substr(0, room);
  const bool is_wanted =
      request_.target.empty() && status_ >= 200 && status_ < 300;
  // A successful answer must be complete; the text of an error may be cut off
  // anywhere.
  stop_ = is_wanted ? Stop::kTooLong : Stop::kCutOff;
  return false;
}

bool Attempt::TakeTargetBody(std::string_view bytes) {
  if (bytes.size() > target_.size() - target_bytes_) {
    stop_ = Stop::kTooLong;
    return false;
  }
  std::memcpy(target_.data() + target_bytes_, bytes.data(), bytes.size());
  target_bytes_ += bytes.size();
  return true;
}

curl_off_t Attempt::Info(CURLINFO what) const {
  curl_off_t value = 0;
  curl_.easy_getinfo(easy_, what, &value);
  return std::max<curl_off_t>(value, 0);
}

uint64_t Attempt::sent_bytes() const {
  return static_cast<uint64_t>(Info(CURLINFO_SIZE_UPLOAD_T));
}

uint64_t Attempt::connection_count() const {
  long count = 0;
  curl_.easy_getinfo(easy_, CURLINFO_NUM_CONNECTS, &count);
  return count > 0 ? static_cast<uint64_t>(count) : 0;
}

Attempt::TimePoint Attempt::LastProgress(TimePoint now) {
  const uint64_t moved = sent_bytes() + header_bytes_ + received_bytes_;
  if (moved != moved_bytes_seen_) {
    moved_bytes_seen_ = moved;
    last_progress_ = now;
  }
  return last_progress_;
}

AttemptEnd Attempt::End(CURLcode code) {
  if (code == CURLE_OK || stop_ == Stop::kCutOff) return EndOfAnswer();
  return EndOfFailure(code);
}

AttemptEnd Attempt::EndOfAnswer() {
  AttemptEnd end;
  end.response.status = status_;
  end.response.headers = std::move(headers_);
  end.response.body = Bytes(std::move(body_));
  end.response.target_bytes = target_bytes_;
  return end;
}

AttemptEnd Attempt::EndOfFailure(CURLcode code) {
  using Kind = AttemptEnd::Kind;
  if (stop_ == Stop::kTooLong) {
    const uint64_t wanted = request_.target.empty() ? request_.body_bytes_max
                                                    : request_.target.size();
    return {Kind::kFatal,
            {},
            DataLossError("the answer is longer than the " +
                          std::to_string(wanted) + " bytes asked for")};
  }
  if (stop_ == Stop::kHeadersTooLong) {
    return {Kind::kFatal,
            {},
            DataLossError("the answer's headers are longer "
                          "than 256 KiB")};
  }
  if (code == CURLE_OUT_OF_MEMORY || stop_ == Stop::kNoMemory) {
    return {Kind::kFatal, {}, ResourceExhaustedError("no memory")};
  }
  std::string text = curl_.easy_strerror(code);
  if (HasSafeText(code) && error_text_[0] != '\0') text = error_text_;
  if (IsDistrust(code)) {
    return {Kind::kFatal,
            {},
            FailedPreconditionError("the server is not trusted: " + text)};
  }
  if (IsNotConnected(code)) {
    return {Kind::kNotConnected, {}, UnavailableError(std::move(text))};
  }
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
    return {Kind::kFatal, {}, InvalidArgumentError(std::move(text))};
  }
  // The only deadline that libcurl has here is for connecting. A timeout before
  // any answer therefore means that the server was never reached.
  const bool is_connecting =
      code == CURLE_OPERATION_TIMEDOUT && !has_answer_begun();
  if (has_answer_begun()) {
    text = "the connection was lost after " + std::to_string(received_bytes_) +
           " bytes of the answer (" + text + ")";
  }
  return {is_connecting ? Kind::kNotConnected : Kind::kLost,
          {},
          UnavailableError(std::move(text))};
}

void Attempt::CopyToTarget() {
  if (hedge_buffer_.data() == nullptr || target_bytes_ == 0) return;
  std::memcpy(request_.target.data(), target_.data(), target_bytes_);
}

}  // namespace holdfast
