#include "tiers/peers/peer_server.h"

// In C++20, libc++ lacks the std::result_of that this Asio would use.
#define BOOST_ASIO_HAS_STD_INVOKE_RESULT 1
#include <limits.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "ground/base/crc32c.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/wait_time.h"
#include "tiers/peers/peer_frame.h"
#include "tiers/peers/peer_socket.h"

namespace holdfast {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr uint64_t kAnswerPieceBytes = 256 << 10;
// The pause before checking again whether there is room for another connection.
constexpr auto kAcceptPause = std::chrono::milliseconds(20);

std::chrono::milliseconds PeerMilliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// The state that all connections of a server share.
struct PeerShared {
  PeerServerOptions options;
  PeerServer::Handler handler;
  asio::thread_pool& workers;
  std::atomic<int> connection_count{0};  // those that know the secret
  std::atomic<int> stranger_count{0};
  std::atomic<uint64_t> held_answer_bytes{0};
  std::atomic<bool> is_stopping{false};
};

// A connection. Its pending operations own it, so it is destroyed when the last
// of them ends.
class PeerSession : public std::enable_shared_from_this<PeerSession> {
 public:
  PeerSession(tcp::socket socket, PeerShared& shared)
      : shared_(shared),
        stream_(std::move(socket)),
        stall_(stream_.get_executor()) {
    ++shared_.stranger_count;
  }
  ~PeerSession() {
    ForgetAnswer();
    --(is_stranger_ ? shared_.stranger_count : shared_.connection_count);
  }

  // These are called on the connections' thread.
  bool is_stranger() const { return is_stranger_; }
  WaitClock::time_point begun() const { return begun_; }
  void End() { stream_.close(); }

  void Begin() {
    // When a connection is closed, bytes that the client has not received are
    // dropped. The system would otherwise keep megabytes for a client that does
    // not read.
    error_code ignored;
    stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
    stream_.socket().native_non_blocking(true, ignored);
    AllowFor(shared_.options.stall_seconds_max);
    Read(head_.data(), kPeerHelloBytes, &PeerSession::OnHello);
  }

 private:
  using Step = void (PeerSession::*)();

  void AllowFor(double seconds) {
    stream_.expires_after(PeerMilliseconds(seconds));
  }

  void Read(char* target, size_t byte_count, Step next) {
    asio::async_read(
        stream_, asio::buffer(target, byte_count),
        [self = shared_from_this(), next](error_code error, size_t) {
          if (!error) (self.get()->*next)();
        });
  }

  void OnHello() {
    const auto nonce = ParsePeerHello({head_.data(), kPeerHelloBytes});
    const bool is_other_version =
        nonce.status().code() == StatusCode::kFailedPrecondition;
    if (!nonce.ok() && !is_other_version) return;
    const std::string own_nonce = RandomPeerNonce();
    answer_head_ = EncodePeerHello(own_nonce);
    if (nonce.ok()) {
      const std::string& secret = shared_.options.secret;
      answer_head_ += PeerProof(secret, PeerSide::kServer, *nonce, own_nonce);
      wanted_proof_ = PeerProof(secret, PeerSide::kClient, *nonce, own_nonce);
    } else {  // the client is told only the version
      answer_head_.append(kPeerProofBytes, '\0');
    }
    const Step next =
        is_other_version ? &PeerSession::Drain : &PeerSession::ReadProof;
    asio::async_write(
        stream_, asio::buffer(answer_head_),
        [self = shared_from_this(), next](error_code error, size_t) {
          if (!error) (self.get()->*next)();
        });
  }

  void ReadProof() {
    Read(head_.data(), kPeerProofBytes, &PeerSession::OnProof);
  }

  void OnProof() {
    if (!IsSameProof({head_.data(), kPeerProofBytes}, wanted_proof_)) return;
    const int count_max = shared_.options.connection_count_max;
    // In this case nothing is pending, so the session and its connection are
    // destroyed.
    if (shared_.connection_count >= count_max) return;
    is_stranger_ = false;
    --shared_.stranger_count;
    ++shared_.connection_count;
    ReadHead();
  }

  void ReadHead() {
    AllowFor(shared_.options.idle_seconds_max);
    Read(head_.data(), kPeerHeadBytes, &PeerSession::OnHead);
  }

  void OnHead() {
    AllowFor(shared_.options.stall_seconds_max);
    const auto head =
        ParsePeerHead({head_.data(), kPeerHeadBytes}, PeerFrameKind::kRequest);
    if (!head.ok()) return Refuse(head.status());
    const uint64_t byte_count = head->payload_bytes;
    if (byte_count > shared_.options.request_bytes_max) {
      return Refuse(InvalidArgumentError(
          "the request is too large (got " + std::to_string(byte_count) +
          " bytes, want at most " +
          std::to_string(shared_.options.request_bytes_max) + ")"));
    }
    request_crc_ = head->payload_crc;
    try {
      request_.resize(byte_count);
    } catch (const std::bad_alloc&) {
      return Refuse(OutOfMemoryError());
    }
    Read(request_.data(), byte_count, &PeerSession::OnRequest);
  }

  void OnRequest() {
    // The handler may take long, so no timer may close the connection while it
    // runs.
    stream_.expires_never();
    asio::post(shared_.workers, [self = shared_from_this()] {
      if (self->shared_.is_stopping) return;
      self->SetAnswer(CatchBadAlloc([&] { return self->Answer(); }));
      asio::post(self->stream_.get_executor(), [self] { self->Write(); });
    });
  }

  Result<PeerAnswer> Answer() {
    if (Crc32c(request_) != request_crc_) {
      return DataLossError("the request came with another checksum");
    }
    if (shared_.held_answer_bytes >= shared_.options.held_answer_bytes_max) {
      return ResourceExhaustedError(
          "too many answers wait for slow readers; ask again later");
    }
    return shared_.handler(request_);
  }

  void SetAnswer(Result<PeerAnswer> answer) {
    if (answer.ok() && !answer->files.empty()) {
      return SetFiles(std::move(answer->files));
    }
    PeerFrameHead head{.kind = PeerFrameKind::kAnswer};
    if (answer.ok()) {
      answer_ = std::move(answer->bytes);
    } else {
      head.code = answer.status().code();
      const std::string_view message = answer.status().message();
      answer_ = Bytes(std::string(message.substr(0, kPeerMessageBytesMax)));
    }
    head.payload_bytes = answer_.size();
    head.payload_crc = Crc32c(answer_.view());
    answer_head_ = EncodePeerHead(head);
    done_bytes_ = 0;
    shared_.held_answer_bytes += answer_.size();
  }

  void SetFiles(std::vector<PeerFilePiece> files) {
    PeerFrameHead head{.kind = PeerFrameKind::kAnswer, .has_crc = false};
    for (const PeerFilePiece& piece : files) {
      head.payload_bytes += piece.byte_count;
    }
    files_.emplace(EncodePeerHead(head), std::move(files));
  }

  void ForgetAnswer() {
    shared_.held_answer_bytes -= answer_.size();
    answer_ = {};
  }

  // Answers a request that is not read. The bytes that still arrive are
  // discarded, since an immediate close could lose the answer, too.
  void Refuse(const Status& status) {
    drains_ = true;
    SetAnswer(status);
    WritePiece();
  }

  void Write() { files_ ? SendFiles() : WritePiece(); }

  // Sends files on a worker, since a file may have to be read from disk. No
  // timer closes the descriptor in the meantime.
  void SendFiles() {
    is_sending_ = true;
    asio::post(shared_.workers, [self = shared_from_this()] {
      if (self->shared_.is_stopping) return;
      const auto progress =
          self->files_->Send(self->stream_.socket().native_handle());
      asio::post(self->stream_.get_executor(),
                 [self, progress] { self->OnSent(progress); });
    });
  }

  void OnSent(PeerFileSender::Progress progress) {
    is_sending_ = false;
    if (progress == PeerFileSender::Progress::kBroken) return;
    if (progress == PeerFileSender::Progress::kDone) {
      files_.reset();
      return ReadHead();
    }
    stall_.expires_after(PeerMilliseconds(shared_.options.stall_seconds_max));
    stall_.async_wait([self = shared_from_this()](error_code error) {
      if (!error && !self->is_sending_) self->stream_.close();
    });
    stream_.socket().async_wait(tcp::socket::wait_write,
                                [self = shared_from_this()](error_code error) {
                                  self->stall_.cancel();
                                  if (!error) self->SendFiles();
                                });
  }

  // Sends the next piece of the answer; the first is sent with the head.
  void WritePiece() {
    AllowFor(shared_.options.stall_seconds_max);
    const std::string_view head =
        done_bytes_ == 0 ? std::string_view(answer_head_) : std::string_view();
    const size_t count =
        std::min<uint64_t>(answer_.size() - done_bytes_, kAnswerPieceBytes);
    const std::array<asio::const_buffer, 2> buffers = {
        asio::buffer(head.data(), head.size()),
        asio::buffer(answer_.data() + done_bytes_, count)};
    asio::async_write(
        stream_, buffers,
        [self = shared_from_this(), count](error_code error, size_t) {
          if (error) return;
          self->done_bytes_ += count;
          if (self->done_bytes_ < self->answer_.size()) {
            return self->WritePiece();
          }
          self->ForgetAnswer();
          self->drains_ ? self->Drain() : self->ReadHead();
        });
  }

  void Drain() { Read(head_.data(), head_.size(), &PeerSession::Drain); }

  PeerShared& shared_;
  boost::beast::tcp_stream stream_;
  const WaitClock::time_point begun_ = WaitClock::now();
  bool is_stranger_ = true;
  std::array<char, kPeerWelcomeBytes> head_;
  std::string wanted_proof_;
  std::string request_;
  uint32_t request_crc_ = 0;
  std::string answer_head_;
  Bytes answer_;
  uint64_t done_bytes_ = 0;
  std::optional<PeerFileSender> files_;  // instead of answer_
  asio::steady_timer stall_;             // for files_
  bool is_sending_ = false;
  bool drains_ = false;
};

Status PeerStartError(const std::string& what, const error_code& error) {
  const std::string message = what + ": " + error.message();
  if (error == asio::error::address_in_use) return AlreadyExistsError(message);
  if (error == asio::error::access_denied) {
    return PermissionDeniedError(message);
  }
  return InvalidArgumentError(message);
}

}  // namespace

class PeerServer::Rep {
 public:
  Rep(const PeerServerOptions& options, Handler handler)
      : workers_(static_cast<size_t>(std::max(1, options.threads))),
        shared_{options, std::move(handler), workers_},
        acceptor_(io_) {}

  // Sessions refer to all members, so they must end first. Those that workers
  // hold return to `io_`, whose destruction releases the others.
  ~Rep() {
    shared_.is_stopping = true;
    io_.stop();
    if (thread_.joinable()) thread_.join();
    workers_.join();
  }

  Status Listen() {
    const PeerServerOptions& options = shared_.options;
    const std::string what = "listen on " + options.address + " port " +
                             std::to_string(options.port);
    if (options.secret.empty()) {
      return InvalidArgumentError(what + ": there is no secret");
    }
    error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    if (error) return PeerStartError(what, error);
    const tcp::endpoint endpoint(address, options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
      acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error) acceptor_.bind(endpoint, error);
    if (!error)
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) return PeerStartError(what, error);
    Accept();
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  uint16_t port() const { return port_; }

 private:
  void Accept() {
    if (!MakeRoomForStranger()) return AcceptLater();
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      // The process is probably out of descriptors, so other connections have
      // to be closed first.
      if (error || IsReserved(socket.native_handle())) {
        socket.close(error);
        EndOldestStranger();
        return AcceptLater();
      }
      SetPeerSocketOptions(socket.native_handle());
      auto session = std::make_shared<PeerSession>(std::move(socket), shared_);
      strangers_.push_back(session);
      session->Begin();
      Accept();
    });
  }

  void AcceptLater() {
    retry_.expires_after(kAcceptPause);
    retry_.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }

  // Returns the oldest session that is still a stranger, or null.
  std::shared_ptr<PeerSession> OldestStranger() {
    while (!strangers_.empty()) {
      auto session = strangers_.front().lock();
      if (session != nullptr && session->is_stranger()) return session;
      strangers_.pop_front();
    }
    return nullptr;
  }

  void EndOldestStranger() {
    const auto oldest = OldestStranger();
    if (oldest == nullptr) return;
    oldest->End();
    strangers_.pop_front();
  }

  bool MakeRoomForStranger() {
    const int count_max =
        std::min<int>(shared_.options.stranger_count_max,
                      std::max<int64_t>(1, DescriptorCountMax() / 8));
    // Others may have come and gone after an old stranger that stays.
    if (std::ssize(strangers_) > 2 * count_max) {
      std::erase_if(strangers_, [](const auto& session) {
        return session.expired() || !session.lock()->is_stranger();
      });
    }
    const auto oldest = OldestStranger();
    if (oldest == nullptr || shared_.stranger_count < count_max) return true;
    if (WaitClock::now() <
        oldest->begun() + WaitTime(shared_.options.stranger_seconds_min)) {
      return false;
    }
    EndOldestStranger();
    return true;
  }

  static int64_t DescriptorCountMax() {
    constexpr int64_t kUnknown = 1024;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUnknown;
    return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
  }

  // A new descriptor gets the lowest free number, so a high number shows that
  // few are left.
  bool IsReserved(int descriptor) const {
    const int64_t count_max = DescriptorCountMax();
    return descriptor >=
           count_max - std::min<int64_t>(shared_.options.descriptor_reserve,
                                         count_max / 4);
  }

  asio::thread_pool workers_;
  PeerShared shared_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{io_};
  std::deque<std::weak_ptr<PeerSession>> strangers_;  // oldest first
  std::thread thread_;
  uint16_t port_ = 0;
};

PeerServer::PeerServer(ProcessPtr<Rep> rep) : rep_(std::move(rep)) {}
PeerServer::~PeerServer() = default;
uint16_t PeerServer::port() const { return rep_->port(); }

Result<std::unique_ptr<PeerServer>> PeerServer::Start(
    const PeerServerOptions& options, Handler handler) {
  try {
    auto rep = MakeInProcess<Rep>(options, std::move(handler));
    HF_RETURN_IF_ERROR(rep->Listen());
    return std::unique_ptr<PeerServer>(new PeerServer(std::move(rep)));
  } catch (const std::exception& error) {  // system_error, bad_alloc
    return ResourceExhaustedError(
        std::string("start a server for peers: no threads: ") + error.what());
  }
}

}  // namespace holdfast
