#include "tiers/peers/peer_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "ground/base/start_threads.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr std::chrono::milliseconds kCancelSlice(50);
// A receiver of more bytes than this sleeps until this many have arrived.
// Waking it for every packet took a tenth of the transfer time.
constexpr uint64_t kWakeBytes = 256 << 10;

struct SocketAddress {
  sockaddr_storage storage;
  socklen_t size;
};

Status SocketError(std::string_view what, int error) {
  return UnavailableError(std::string(what) + ": " +
                          std::generic_category().message(error));
}

// Waits for any of the events, and returns those that occurred.
Result<short> WaitForSocket(int descriptor, short events,
                            const PeerWait& wait) {
  while (true) {
    HF_RETURN_IF_ERROR(wait.Check());
    pollfd entry{descriptor, events, 0};
    const int count = ::poll(&entry, 1, static_cast<int>(wait.Slice().count()));
    if (count > 0) return entry.revents;
    if (count < 0 && errno != EINTR) return SocketError("poll", errno);
  }
}

// A lookup of a name. getaddrinfo has no timeout, so it runs on a separate
// thread, which is abandoned when the time is up.
struct NameQuestion {
  std::string host;
  std::mutex mutex;
  std::condition_variable answered;
  bool is_answered = false;
  int error = 0;
  std::vector<SocketAddress> addresses;
};

int AskForAddresses(const std::string& host, int flags,
                    std::vector<SocketAddress>& addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) return error;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address{.size = entry->ai_addrlen};
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return 0;
}

void AnswerQuestion(NameQuestion& question) {
  std::vector<SocketAddress> addresses;
  const int error = AskForAddresses(question.host, 0, addresses);
  const std::lock_guard lock(question.mutex);
  question.error = error;
  question.addresses = std::move(addresses);
  question.is_answered = true;
  question.answered.notify_all();
}

Result<std::vector<SocketAddress>> ResolveHost(const std::string& host,
                                               const PeerWait& wait) {
  std::vector<SocketAddress> addresses;
  if (AskForAddresses(host, AI_NUMERICHOST, addresses) == 0) return addresses;
  const auto question = std::make_shared<NameQuestion>();
  question->host = host;
  auto thread = TryStartThread([question] { AnswerQuestion(*question); });
  if (!thread) return ResourceExhaustedError("no thread to ask for its name");
  thread->detach();
  std::unique_lock lock(question->mutex);
  while (!question->is_answered) {
    HF_RETURN_IF_ERROR(wait.Check());
    question->answered.wait_for(lock, wait.Slice());
  }
  if (question->error != 0) {
    return UnavailableError(std::string("no address of that name: ") +
                            ::gai_strerror(question->error));
  }
  return std::move(question->addresses);
}

void SetPort(SocketAddress& address, uint16_t port) {
  if (address.storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
  }
}

Result<PeerSocket> ConnectTo(const SocketAddress& address,
                             const PeerWait& wait) {
  const int descriptor = ::socket(
      address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return SocketError("no socket", errno);
  PeerSocket socket(descriptor);
  SetPeerSocketOptions(descriptor);
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(descriptor, raw, address.size) == 0) return socket;
  if (errno != EINPROGRESS) return SocketError("connect", errno);
  HF_RETURN_IF_ERROR(WaitForSocket(descriptor, POLLOUT, wait).status());
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return SocketError("connect", error);
  return socket;
}

void SetSocketNumber(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof(value));
}

}  // namespace

Status PeerWait::Check() const {
  if (cancel != nullptr) HF_RETURN_IF_ERROR(cancel->Check());
  if (WaitClock::now() < deadline) return {};
  return DeadlineExceededError("no answer in time");
}

std::chrono::milliseconds PeerWait::Slice() const {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - WaitClock::now());
  return std::clamp(left, std::chrono::milliseconds(0), kCancelSlice);
}

void SetPeerSocketOptions(int descriptor) {
  SetSocketNumber(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  SetSocketNumber(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetSocketNumber(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  SetSocketNumber(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  SetSocketNumber(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

PeerSocket::PeerSocket(PeerSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

PeerSocket& PeerSocket::operator=(PeerSocket&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void PeerSocket::Close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Result<PeerSocket> PeerSocket::Connect(const std::string& host, uint16_t port,
                                       const PeerWait& wait) {
  HF_ASSIGN_OR_RETURN(auto addresses, ResolveHost(host, wait));
  Status last = UnavailableError("the name has no address");
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto now = WaitClock::now();
    // This leaves time for the other addresses if this address never answers.
    const auto share = (wait.deadline - now) /
                       static_cast<WaitClock::rep>(addresses.size() - i);
    SetPort(addresses[i], port);
    auto socket = ConnectTo(addresses[i], {now + share, wait.cancel});
    if (socket.ok() || socket.status().code() == StatusCode::kCancelled) {
      return socket;
    }
    last = socket.status();
  }
  return last;
}

bool PeerSocket::IsQuiet() const {
  // If bytes or the end of the connection have arrived unrequested, the
  // connection is useless.
  char byte;
  return ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

Result<bool> PeerSocket::Send(std::string_view first, std::string_view second,
                              const PeerWait& wait) {
  while (!first.empty() || !second.empty()) {
    iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                      {const_cast<char*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    if (sent >= 0) {
      const size_t of_first = std::min(first.size(), static_cast<size_t>(sent));
      first.remove_prefix(of_first);
      second.remove_prefix(static_cast<size_t>(sent) - of_first);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      return SocketError("the connection broke", errno);
    }
    HF_ASSIGN_OR_RETURN(const short events,
                        WaitForSocket(descriptor_, POLLIN | POLLOUT, wait));
    // An answer to half a request is a refusal, which must be read.
    if ((events & POLLIN) != 0) return false;
  }
  return true;
}

Status PeerSocket::Receive(char* target, uint64_t byte_count,
                           const PeerWait& wait, uint64_t& received_bytes) {
  bool has_wake_bytes = false;
  // A peer that never stops sending must not delay this call beyond the
  // deadline, either.
  for (uint64_t done = 0; done < byte_count;) {
    HF_RETURN_IF_ERROR(wait.Check());
    const ssize_t got =
        ::recv(descriptor_, target + done, byte_count - done, 0);
    if (got > 0) {
      done += static_cast<uint64_t>(got);
      received_bytes += static_cast<uint64_t>(got);
    } else if (got == 0) {
      return UnavailableError("the peer ended the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const uint64_t wake_bytes = std::min(byte_count - done, kWakeBytes);
      SetSocketNumber(descriptor_, SOL_SOCKET, SO_RCVLOWAT,
                      static_cast<int>(wake_bytes));
      has_wake_bytes = true;
      HF_RETURN_IF_ERROR(WaitForSocket(descriptor_, POLLIN, wait).status());
    } else if (errno != EINTR) {
      return SocketError("the connection broke", errno);
    }
  }
  // The low-water mark is restored, because the first byte of an early answer
  // must wake Send.
  if (has_wake_bytes) SetSocketNumber(descriptor_, SOL_SOCKET, SO_RCVLOWAT, 1);
  return {};
}

}  // namespace holdfast
