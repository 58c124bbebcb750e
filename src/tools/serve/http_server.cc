#include "tools/serve/http_server.h"

#include <sys/resource.h>

// This Asio would use std::result_of, which libc++ lacks in C++20.
#define BOOST_ASIO_HAS_STD_INVOKE_RESULT 1
#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <iterator>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr uint64_t kPieceBytes = 256 << 10;

// The fields that a response can depend on.
constexpr http::field kKnownFields[] = {
    http::field::accept,     http::field::authorization,
    http::field::cookie,     http::field::host,
    http::field::if_match,   http::field::if_none_match,
    http::field::if_range,   http::field::range,
    http::field::user_agent,
};

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

class Session;

// Shared by all connections of a server.
struct Shared {
  HttpServerOptions options;
  HttpServer::AnswerFn answer;
  asio::thread_pool& workers;
  std::atomic<int> client_count{0};
  std::atomic<bool> is_stopping{false};
  // The connections that have not sent a request yet, oldest first. Only the
  // thread that handles connections may use this list.
  std::list<Session*> silent;
};

// Returns the maximum number of connections: at most half of this process's
// descriptors, so that enough are left for the files that are read.
int ClientCountMax(int wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  return static_cast<int>(
      std::clamp<rlim_t>(limit.rlim_cur / 2, 1, std::max(1, wanted)));
}

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Shared& shared)
      : shared_(shared),
        stream_(std::move(socket)),
        buffer_(shared.options.header_bytes_max) {
    ++shared_.client_count;
    shared_.silent.push_back(this);
    silent_ = std::prev(shared_.silent.end());
  }
  ~Session() {
    --shared_.client_count;
    IsHeard();
  }

  void ReadRequest() {
    parser_.emplace();
    parser_->header_limit(
        static_cast<uint32_t>(shared_.options.header_bytes_max));
    const double seconds = is_first_ ? shared_.options.header_seconds_max
                                     : shared_.options.idle_seconds_max;
    is_first_ = false;
    stream_.expires_after(Milliseconds(seconds));
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, size_t) {
          self->OnHeader(error);
        });
  }

  // Closes the connection to make room for another client.
  void GiveUp() {
    IsHeard();
    Close();
  }

 private:
  void IsHeard() {
    if (!silent_) return;
    shared_.silent.erase(*silent_);
    silent_.reset();
  }

  void OnHeader(error_code error) {
    IsHeard();
    if (error == http::error::header_limit ||
        error == http::error::buffer_overflow) {
      return Refuse(431, "the header is too large\n");
    }
    if (error &&
        error.category() ==
            make_error_code(http::error::bad_target).category() &&
        error != http::error::end_of_stream &&
        error != http::error::partial_message) {
      return Refuse(400, "the request is not understood\n");
    }
    if (error) return Close();
    const auto& message = parser_->get();
    keeps_ = message.keep_alive();
    const bool has_body = message.has_content_length()
                              ? message[http::field::content_length] != "0"
                              : message.chunked();
    if (has_body) return Refuse(413, "requests have no body here\n");
    if (message.method() != http::verb::get &&
        message.method() != http::verb::head) {
      response_ = TextResponse(405, "only GET and HEAD are answered\n");
      response_.fields.emplace_back("Allow", "GET, HEAD");
      keeps_ = false;
      return WriteHead();
    }
    const auto target = message.target();
    auto parsed = ParseTarget({target.data(), target.size()});
    if (!parsed) return Refuse(400, "the target is not a path\n");
    ServedRequest request;
    request.is_head = is_head_ = message.method() == http::verb::head;
    request.target = *std::move(parsed);
    for (const http::field field : kKnownFields) {
      const auto found = message.find(field);
      if (found == message.end()) continue;
      const auto name = http::to_string(field);
      request.fields[LowerCase(std::string_view(name.data(), name.size()))] =
          std::string(found->value().data(), found->value().size());
    }
    stream_.expires_never();
    asio::post(shared_.workers, [self = shared_from_this(),
                                 request = std::move(request)] {
      self->response_ = self->Answer(request);
      asio::post(self->stream_.get_executor(), [self] { self->WriteHead(); });
    });
  }

  ServedResponse Answer(const ServedRequest& request) {
    try {
      if (shared_.is_stopping) return TextResponse(503, "the server stops\n");
      return shared_.answer(request);
    } catch (const std::bad_alloc&) {
      return TextResponse(503, "no memory\n");
    }
  }

  void Refuse(int status, std::string text) {
    response_ = TextResponse(status, std::move(text));
    keeps_ = false;
    is_head_ = false;
    WriteHead();
  }

  void WriteHead() {
    head_.emplace();
    head_->version(11);
    head_->result(static_cast<unsigned>(response_.status));
    for (const auto& [name, value] : response_.fields) {
      head_->insert(name, value);
    }
    head_->set("X-Content-Type-Options", "nosniff");
    head_->set("Cross-Origin-Resource-Policy", "same-origin");
    if (response_.status != 304) {
      head_->content_length(response_.byte_count());
    }
    head_->keep_alive(keeps_);
    serializer_.emplace(*head_);
    done_bytes_ = 0;
    ForgetUnsent(true);
    stream_.expires_after(Milliseconds(shared_.options.write_seconds_max));
    http::async_write_header(
        stream_, *serializer_,
        [self = shared_from_this()](error_code error, size_t) {
          if (error) return self->Close();
          self->NextPiece();
        });
  }

  void NextPiece() {
    const uint64_t left = response_.byte_count() - done_bytes_;
    if (is_head_ || left == 0) return EndResponse();
    const size_t count = std::min(left, kPieceBytes);
    if (!response_.content) {
      return WritePiece(response_.text.data() + done_bytes_, count);
    }
    stream_.expires_never();
    asio::post(shared_.workers, [self = shared_from_this(), count] {
      const bool is_read = self->ReadPiece(count);
      asio::post(self->stream_.get_executor(), [self, count, is_read] {
        if (!is_read) return self->Close();
        self->WritePiece(self->piece_.data(), count);
      });
    });
  }

  bool ReadPiece(size_t count) {
    try {
      piece_.resize(count);
      return !shared_.is_stopping &&
             response_
                 .content(response_.content_offset + done_bytes_,
                          {piece_.data(), count})
                 .ok();
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void WritePiece(const char* bytes, size_t count) {
    stream_.expires_after(Milliseconds(shared_.options.write_seconds_max));
    asio::async_write(
        stream_, asio::buffer(bytes, count),
        [self = shared_from_this(), count](error_code error, size_t) {
          if (error) return self->Close();
          self->done_bytes_ += count;
          self->NextPiece();
        });
  }

  void EndResponse() {
    response_ = {};
    piece_ = {};
    ForgetUnsent(false);
    if (!keeps_) return Close();
    ReadRequest();
  }

  // Determines whether closing the connection discards unsent data. It should
  // when a write takes too long: otherwise the system would keep megabytes for
  // a client that does not read.
  void ForgetUnsent(bool forgets) {
    error_code ignored;
    stream_.socket().set_option(asio::socket_base::linger(forgets, 0), ignored);
  }

  // Closes the connection. After this no operation refers to the session, so it
  // is destroyed.
  void Close() {
    error_code ignored;
    ForgetUnsent(false);
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
  }

  Shared& shared_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::empty_body>> head_;
  std::optional<http::response_serializer<http::empty_body>> serializer_;
  ServedResponse response_;
  std::string piece_;
  uint64_t done_bytes_ = 0;
  std::optional<std::list<Session*>::iterator> silent_;
  bool is_first_ = true;
  bool is_head_ = false;
  bool keeps_ = false;
};

Status StartError(const std::string& what, const error_code& error) {
  const std::string message = what + ": " + error.message();
  if (error == asio::error::address_in_use) return AlreadyExistsError(message);
  if (error == asio::error::access_denied) {
    return PermissionDeniedError(message);
  }
  return InvalidArgumentError(message);
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(const HttpServerOptions& options, AnswerFn answer)
      : workers_(std::max(1, options.worker_count)),
        shared_{options, std::move(answer), workers_},
        acceptor_(io_) {
    shared_.options.client_count_max = ClientCountMax(options.client_count_max);
  }

  // Sessions refer to all members, so they must be gone before these. Those
  // that workers hold return to `io_`, which destroys all sessions.
  ~BeastServer() override {
    shared_.is_stopping = true;
    io_.stop();
    if (thread_.joinable()) thread_.join();
    workers_.join();
  }

  Status Listen() {
    const HttpServerOptions& options = shared_.options;
    const std::string what =
        "listen on " + options.host + ":" + std::to_string(options.port);
    error_code error;
    const auto address = asio::ip::make_address(options.host, error);
    if (error) return StartError(what, error);
    const tcp::endpoint endpoint(address, options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
      acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(128, error);
    if (error) return StartError(what, error);
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { io_.run(); });
    return Status();
  }

  uint16_t port() const override { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return AcceptLater();
      const bool is_full =
          shared_.client_count >= shared_.options.client_count_max;
      if (is_full && shared_.silent.empty()) {
        TurnAway(std::move(socket));
      } else {
        // Clients that connect without sending a request must not block others.
        if (is_full) shared_.silent.front()->GiveUp();
        std::make_shared<Session>(std::move(socket), shared_)->ReadRequest();
      }
      Accept();
    });
  }

  // Tries again later. The process is probably out of descriptors, so other
  // connections must close first.
  void AcceptLater() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }

  static void TurnAway(tcp::socket socket) {
    constexpr std::string_view kText =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(kText.data(), kText.size()), ignored);
    socket.shutdown(tcp::socket::shutdown_both, ignored);
  }

  asio::thread_pool workers_;
  Shared shared_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{io_};
  std::thread thread_;
  uint16_t port_ = 0;
};

}  // namespace

Result<ProcessPtr<HttpServer>> HttpServer::Start(
    const HttpServerOptions& options, AnswerFn answer) {
  auto server = MakeInProcess<BeastServer>(options, std::move(answer));
  HF_RETURN_IF_ERROR(server->Listen());
  return ProcessPtr<HttpServer>(std::move(server));
}

}  // namespace holdfast
