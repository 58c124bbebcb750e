#include "tiers/peers/peer_file_sender.h"

#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace holdfast {
namespace {

constexpr int kSendFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
constexpr uint64_t kReadHereBytesMax = 16 << 10;

// sendfile has no MSG_NOSIGNAL, so SIGPIPE is blocked on our own threads.
void BlockPipeSignal() {
  thread_local const bool is_blocked = [] {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGPIPE);
    return ::pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0;
  }();
  static_cast<void>(is_blocked);
}

// Returns true for an error of the socket, not of a file.
bool IsConnectionError(int error) {
  return error == EPIPE || error == ECONNRESET || error == ETIMEDOUT ||
         error == ENOTCONN || error == EBADF || error == EHOSTUNREACH ||
         error == ENETUNREACH || error == ECONNABORTED;
}

// Reads and sends the next bytes of a piece, or zeros if they cannot be read.
ssize_t ReadAndSend(int socket, const PeerFilePiece& piece) {
  std::array<char, kReadHereBytesMax> bytes{};
  const size_t count = std::min(piece.byte_count, kReadHereBytesMax);
  static_cast<void>(::pread(piece.descriptor, bytes.data(), count,
                            static_cast<off_t>(piece.offset)));
  return ::send(socket, bytes.data(), count, kSendFlags);
}

PeerFileSender::Progress ProgressOf(int error) {
  return error == EAGAIN || error == EWOULDBLOCK
             ? PeerFileSender::Progress::kBlocked
             : PeerFileSender::Progress::kBroken;
}

}  // namespace

PeerFileSender::PeerFileSender(std::string head,
                               std::vector<PeerFilePiece> pieces)
    : head_(std::move(head)), pieces_(std::move(pieces)) {}

PeerFileSender::Progress PeerFileSender::Send(int socket) {
  BlockPipeSignal();
  while (head_done_bytes_ < head_.size()) {
    const ssize_t sent = ::send(socket, head_.data() + head_done_bytes_,
                                head_.size() - head_done_bytes_,
                                kSendFlags | (pieces_.empty() ? 0 : MSG_MORE));
    if (sent >= 0) {
      head_done_bytes_ += static_cast<size_t>(sent);
    } else if (errno != EINTR) {
      return ProgressOf(errno);
    }
  }
  for (; next_ < pieces_.size(); ++next_) {
    PeerFilePiece& piece = pieces_[next_];
    while (piece.byte_count > 0) {
      auto offset = static_cast<off_t>(piece.offset);
      ssize_t sent =
          ::sendfile(socket, piece.descriptor, &offset, piece.byte_count);
      // If nothing was sent and there was no error, the file ends before the
      // piece does.
      const bool is_of_file =
          sent == 0 || (sent < 0 && errno != EAGAIN && errno != EINTR &&
                        !IsConnectionError(errno));
      if (is_of_file) sent = ReadAndSend(socket, piece);
      if (sent < 0 && errno != EINTR) return ProgressOf(errno);
      if (sent < 0) continue;
      piece.offset += static_cast<uint64_t>(sent);
      piece.byte_count -= static_cast<uint64_t>(sent);
    }
  }
  return Progress::kDone;
}

}  // namespace holdfast
