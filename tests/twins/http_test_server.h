// A scripted HTTP/1.1 server for tests: a handler receives each request, and
// its answer may be slow, cut off, reset or missing.
//
// Thread-safety: any thread; the handler is called on the connections' threads,
// one call at a time. Ownership: the destructor ends all connections.
// Errors: aborts the test program if no port is available.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "stores/http/http_client.h"

namespace holdfast {

struct TestRequest {
  std::string method;
  std::string target;  // path and query, as sent
  HttpHeaders headers;
  std::string body;
  int index = 0;       // from 0, over all connections
  int connection = 0;  // from 0
};

struct TestAnswer {
  int status = 200;
  HttpHeaders headers;
  std::string body;
  // Replaces the body's length in the header; -1 sends no length.
  std::optional<int64_t> claimed_bytes;
  // Sends this many bytes of the body, then ends the connection.
  std::optional<size_t> cut_after;
  bool reset = false;   // the connection ends with a reset
  bool silent = false;  // sends nothing at all, and ends the connection
  bool hang = false;    // sends nothing (more) before Release()
  bool close = false;   // "Connection: close"
};

class HttpTestServer {
 public:
  using Handler = std::function<TestAnswer(const TestRequest&)>;

  explicit HttpTestServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (listener_ < 0 || bind(listener_, generic, length) != 0 ||
        listen(listener_, 128) != 0 ||
        getsockname(listener_, generic, &length) != 0) {
      std::perror("HttpTestServer");
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }

  ~HttpTestServer() {
    Release();
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
  }

  HttpTestServer(const HttpTestServer&) = delete;
  HttpTestServer& operator=(const HttpTestServer&) = delete;

  int port() const { return port_; }
  std::string Url(std::string_view target) const {
    return "http://127.0.0.1:" + std::to_string(port_) + std::string(target);
  }
  int connection_count() const {
    const std::lock_guard lock(mutex_);
    return connection_count_;
  }
  std::vector<TestRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // Waits until this many requests have arrived.
  void WaitForRequests(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() >= count; });
  }
  // Lets hanging answers continue.
  void Release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

 private:
  void Accept() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard lock(mutex_);
      if (fd < 0 || is_closed_) {
        if (fd >= 0) close(fd);
        return;
      }
      open_.push_back(fd);
      const int connection = connection_count_++;
      threads_.emplace_back([this, fd, connection] { Serve(fd, connection); });
    }
  }

  void Serve(int fd, int connection) {
    std::string received;
    while (true) {
      std::optional<TestRequest> request = Receive(fd, received);
      if (!request) break;
      request->connection = connection;
      if (!Give(fd, AnswerOf(*std::move(request)))) break;
    }
    const std::lock_guard lock(mutex_);
    open_.remove(fd);
    close(fd);
  }

  TestAnswer AnswerOf(TestRequest request) {
    const std::lock_guard one_call(handler_mutex_);
    {
      const std::lock_guard lock(mutex_);
      request.index = static_cast<int>(requests_.size());
      requests_.push_back(request);
      changed_.notify_all();
    }
    return handler_(request);
  }

  static std::optional<TestRequest> Receive(int fd, std::string& received) {
    size_t end = 0;
    while ((end = received.find("\r\n\r\n")) == std::string::npos) {
      if (!ReceiveMore(fd, received)) return std::nullopt;
    }
    TestRequest request;
    const std::string_view head = std::string_view(received).substr(0, end + 2);
    ParseHead(head, request);
    const auto length = FindHeader(request.headers, "Content-Length");
    const size_t body_bytes =
        length ? std::strtoull(std::string(*length).c_str(), nullptr, 10) : 0;
    received.erase(0, end + 4);
    while (received.size() < body_bytes) {
      if (!ReceiveMore(fd, received)) return std::nullopt;
    }
    request.body = received.substr(0, body_bytes);
    received.erase(0, body_bytes);
    return request;
  }

  static bool ReceiveMore(int fd, std::string& received) {
    char buffer[1 << 16];
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count <= 0) return false;
    received.append(buffer, static_cast<size_t>(count));
    return true;
  }

  static void ParseHead(std::string_view head, TestRequest& request) {
    const std::string_view first = head.substr(0, head.find("\r\n"));
    const size_t space = first.find(' ');
    request.method = first.substr(0, space);
    request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
    head.remove_prefix(first.size() + 2);
    while (!head.empty()) {
      const std::string_view line = head.substr(0, head.find("\r\n"));
      const size_t colon = line.find(": ");
      if (colon != std::string_view::npos) {
        request.headers.emplace_back(line.substr(0, colon),
                                     line.substr(colon + 2));
      }
      head.remove_prefix(line.size() + 2);
    }
  }

  // Sends an answer. Returns false if the connection must end.
  bool Give(int fd, const TestAnswer& answer) {
    if (answer.hang && !answer.cut_after) AwaitRelease();
    if (answer.silent) return End(fd, answer);
    std::string text = HeadOf(answer);
    text += answer.body.substr(0, answer.cut_after.value_or(std::string::npos));
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t count =
          send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    if (answer.hang && answer.cut_after) AwaitRelease();
    if (answer.cut_after || answer.close) return End(fd, answer);
    return true;
  }

  static std::string HeadOf(const TestAnswer& answer) {
    std::string head =
        "HTTP/1.1 " + std::to_string(answer.status) + " Scripted\r\n";
    const int64_t claimed =
        answer.claimed_bytes.value_or(static_cast<int64_t>(answer.body.size()));
    if (claimed >= 0) {
      head += "Content-Length: " + std::to_string(claimed) + "\r\n";
    }
    if (answer.close) head += "Connection: close\r\n";
    for (const auto& [name, value] : answer.headers) {
      head += name + ": " + value + "\r\n";
    }
    return head + "\r\n";
  }

  static bool End(int fd, const TestAnswer& answer) {
    if (answer.reset) {
      const linger at_once = {1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    return false;
  }

  void AwaitRelease() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_released_; });
  }

  const Handler handler_;
  std::mutex handler_mutex_;
  int listener_ = -1;
  int port_ = 0;
  std::thread acceptor_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<int> open_;
  std::list<std::thread> threads_;
  std::vector<TestRequest> requests_;
  int connection_count_ = 0;
  bool is_released_ = false;
  bool is_closed_ = false;
};

}  // namespace holdfast
