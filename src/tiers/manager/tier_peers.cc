#include "tiers/manager/tier_peers.h"

#include <algorithm>
#include <thread>

#include "ground/base/host_name.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/base/wait_time.h"

namespace holdfast {
namespace {

// A rank that has waited this long for a message checks whether the sender is
// alive. It doubles the time for each further check, up to kLookSecondsMax.
constexpr double kFirstLookSeconds = 0.1;
constexpr double kLookSecondsMax = 2;
// A rank that did not answer is not asked again for this long. Calls fail
// immediately in the meantime.
constexpr double kLostSeconds = 15;
// A peer that has no memory for an answer now is asked again after this pause.
constexpr double kRetrySeconds = 0.02;
constexpr uint64_t kMessageBytesMax = uint64_t{1} << 30;

enum class TierRequest : char {
  kMessage = 'm',  // from, topic, message
  kPing = 'p',
  kBlocks = 'b',  // BlockRange
  kBlocksUnchecked = 'u',
  kFile = 'f',  // directory name, file name
};

std::string RequestOf(TierRequest kind, std::string_view rest = "") {
  return std::string(1, static_cast<char>(kind)) + std::string(rest);
}

}  // namespace

class TierPeers::Mailbox {
 public:
  void Put(int64_t from, std::string topic, std::string message) {
    const std::lock_guard lock(mutex_);
    messages_[{from, std::move(topic)}] = std::move(message);
    arrived_.notify_all();
  }

  // Takes the message; nullopt if none arrived in time.
  std::optional<std::string> Take(int64_t from, std::string_view topic,
                                  double seconds) {
    const Key key(from, topic);
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, WaitTime(seconds),
                           [&] { return messages_.contains(key); })) {
      return std::nullopt;
    }
    return std::move(messages_.extract(key).mapped());
  }

 private:
  using Key = std::pair<int64_t, std::string>;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Key, std::string> messages_;
};

class TierPeers::Transport final : public ProcessTransport {
 public:
  explicit Transport(TierPeers* peers) : peers_(*peers) {}

  int64_t rank() const override { return peers_.rank_; }
  int64_t size() const override { return peers_.size_; }
  std::string HostOf(int64_t rank) const override {
    return peers_.addresses_[rank].host;
  }

  Status Send(int64_t to, std::string_view topic,
              std::string_view message) override {
    std::string request = RequestOf(TierRequest::kMessage);
    PutVarint(request, peers_.rank_);
    PutString(request, topic);
    request += message;
    return peers_.Ask(to, request).status();
  }

  Result<std::string> Receive(int64_t from, std::string_view topic,
                              double timeout_seconds) override {
    const auto deadline = WaitClock::now() + WaitTime(timeout_seconds);
    for (double look = kFirstLookSeconds;;
         look = std::min(2 * look, kLookSecondsMax)) {
      const double left = SecondsUntil(deadline);
      auto message = peers_.mailbox_->Take(from, topic, std::min(left, look));
      if (message) return *std::move(message);
      HF_RETURN_IF_ERROR(peers_.cancel_.Check());
      if (left <= look) {
        return DeadlineExceededError("no message from " + peers_.NameOf(from));
      }
      const Status lives =
          peers_.Ask(from, RequestOf(TierRequest::kPing)).status();
      if (lives.ok()) continue;
      // The sender may have sent this message, its last, and then exited.
      message = peers_.mailbox_->Take(from, topic, 0);
      if (message) return *std::move(message);
      return lives.WithContext("wait for " + peers_.NameOf(from));
    }
  }

 private:
  TierPeers& peers_;
};

TierPeers::TierPeers(const TieredManagerOptions& options, ServedSteps* steps,
                     ProcessGroup* group)
    : rank_(group == nullptr ? 0 : group->rank()),
      size_(group == nullptr ? 1 : group->size()),
      answer_seconds_max_(options.answer_seconds_max),
      timeout_seconds_(options.timeout_seconds),
      steps_(steps),
      mailbox_(std::make_unique<Mailbox>()) {}

TierPeers::~TierPeers() { Cancel(); }

Result<std::unique_ptr<TierPeers>> TierPeers::Start(
    const TieredManagerOptions& options, ServedSteps* steps,
    ProcessGroup* group) {
  std::unique_ptr<TierPeers> peers(new TierPeers(options, steps, group));
  if (peers->size_ == 1) {
    peers->names_ = {"rank 0"};
    return peers;
  }
  HF_RETURN_IF_ERROR(peers->Connect(options, *group));
  return peers;
}

Status TierPeers::Connect(const TieredManagerOptions& options,
                          ProcessGroup& group) {
  const std::string& file = options.run;
  HF_ASSIGN_OR_RETURN(
      const std::string secret,
      group.Broadcast({"secret", file}, 0, RandomHex32() + RandomHex32()));
  PeerClientOptions client;
  client.secret = secret;
  client.answer_bytes_max = kMessageBytesMax;
  client_ = std::make_unique<PeerClient>(client);
  PeerServerOptions server;
  server.address = options.listen_address;
  server.port = options.port;
  server.secret = secret;
  server.request_bytes_max = kMessageBytesMax;
  Result<std::unique_ptr<PeerServer>> started = PeerServer::Start(
      server, [this](std::string_view request) { return Answer(request); });
  HF_RETURN_IF_ERROR(group.Agree({"listen", file}, started.status()));
  server_ = *std::move(started);
  std::string address;
  PutString(address, options.host.empty() ? HostName() : options.host);
  PutVarint(address, server_->port());
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      group.AllGather({"addresses", file}, address));
  for (int64_t rank = 0; rank < size_; ++rank) {
    Cursor cursor(all[rank]);
    PeerAddress peer;
    uint64_t port = 0;
    if (!ReadString(cursor, peer.host) || !ReadVarint64(cursor, port)) {
      return InternalError("rank " + std::to_string(rank) + " has no address");
    }
    peer.port = static_cast<uint16_t>(port);
    peer.name = "rank " + std::to_string(rank);
    names_.push_back(peer.name + " (" + peer.host + ")");
    addresses_.push_back(std::move(peer));
  }
  return Status();
}

std::unique_ptr<ProcessGroup> TierPeers::MakeGroup(const std::string& name) {
  if (size_ == 1) return SingleProcessGroup();
  ProcessGroupOptions options;
  options.timeout_seconds = timeout_seconds_;
  options.name = name;
  return MakeProcessGroup(std::make_shared<Transport>(this), options);
}

Result<PeerAnswer> TierPeers::Answer(std::string_view request) {
  if (request.empty()) return InvalidArgumentError("an empty request");
  const std::string_view rest = request.substr(1);
  switch (static_cast<TierRequest>(request.front())) {
    case TierRequest::kPing:
      return PeerAnswer();
    case TierRequest::kMessage: {
      Cursor cursor(rest);
      uint64_t from = 0;
      std::string topic;
      if (!ReadVarint64(cursor, from) || !ReadString(cursor, topic)) {
        return InvalidArgumentError("the message is malformed");
      }
      mailbox_->Put(static_cast<int64_t>(from), std::move(topic),
                    std::string(rest.substr(cursor.offset())));
      return PeerAnswer();
    }
    case TierRequest::kBlocks:
      return AnswerRead(rest);
    case TierRequest::kBlocksUnchecked:
      return AnswerFiles(rest);
    case TierRequest::kFile: {
      Cursor cursor(rest);
      std::string directory;
      std::string name;
      const bool is_read =
          ReadString(cursor, directory) && ReadString(cursor, name);
      const auto member = ParseDirectoryName(directory);
      if (!is_read || !member) {
        return InvalidArgumentError(
            "the peer asked for a name that is not a file of a step");
      }
      HF_ASSIGN_OR_RETURN(Bytes bytes, steps_->ReadFile(*member, name));
      return PeerAnswer(std::move(bytes));
    }
  }
  return InvalidArgumentError("a request of an unknown kind");
}

Result<PeerAnswer> TierPeers::AnswerRead(std::string_view request) {
  HF_ASSIGN_OR_RETURN(const BlockRange range, DecodeBlockRange(request));
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<BlockFiles> files,
                      steps_->FilesOf(range.member, range.kind));
  // The range is checked before memory is allocated for it.
  if (range.byte_count > files->byte_count() ||
      range.offset > files->byte_count() - range.byte_count) {
    return OutOfRangeError("blocks past the end of what is here");
  }
  if (range.byte_count == 0) return PeerAnswer();
  std::shared_ptr<Buffer> buffer = answers_.Get(range.byte_count);
  if (buffer == nullptr) return ResourceExhaustedError("no memory for blocks");
  HF_RETURN_IF_ERROR(
      files->Read(range.offset, {buffer->data(), range.byte_count}));
  const std::string_view view(buffer->data(), range.byte_count);
  return PeerAnswer(Bytes(std::move(buffer), view));
}

Result<PeerAnswer> TierPeers::AnswerFiles(std::string_view request) {
  HF_ASSIGN_OR_RETURN(const BlockRange range, DecodeBlockRange(request));
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<BlockFiles> files,
                      steps_->FilesOf(range.member, range.kind));
  HF_ASSIGN_OR_RETURN(auto opened,
                      files->OpenRange(range.offset, range.byte_count));
  std::vector<PeerFilePiece> pieces;
  for (BlockFiles::OpenPiece& piece : opened) {
    const int descriptor = piece.file->fd.get();
    pieces.push_back(
        {std::move(piece.file), descriptor, piece.offset, piece.byte_count});
  }
  return PeerAnswer(std::move(pieces));
}

Result<Bytes> TierPeers::Ask(int64_t rank, std::string_view request,
                             std::span<char> target, AnswerCheck check) {
  {
    const std::lock_guard lock(lost_mutex_);
    // A rank that has not answered is not asked for a while, since each try may
    // take as long as the longest wait for an answer.
    const auto lost = lost_.find(rank);
    if (lost != lost_.end() && WaitClock::now() < lost->second.until) {
      return lost->second.status;
    }
  }
  PeerAddress peer = addresses_[rank];
  peer.name = names_[rank];
  const auto deadline = WaitClock::now() + WaitTime(answer_seconds_max_);
  for (;;) {
    auto answer = client_->Call(peer, request, SecondsUntil(deadline), target,
                                &cancel_, check);
    const StatusCode code = answer.status().code();
    // The peer holds too many answers for slow readers, so the request is sent
    // again later.
    if (code == StatusCode::kResourceExhausted &&
        SecondsUntil(deadline) > kRetrySeconds) {
      std::this_thread::sleep_for(WaitTime(kRetrySeconds));
      continue;
    }
    if (code == StatusCode::kUnavailable ||
        code == StatusCode::kDeadlineExceeded) {
      const std::lock_guard lock(lost_mutex_);
      lost_[rank] = {answer.status(),
                     WaitClock::now() + WaitTime(kLostSeconds)};
    }
    return answer;
  }
}

Status TierPeers::Read(int64_t holder, const BlockRange& range,
                       std::span<char> target) {
  return ReadChecked(holder, range, target, AnswerCheck::kHere);
}

Status TierPeers::ReadUnchecked(int64_t holder, const BlockRange& range,
                                std::span<char> target) {
  return ReadChecked(holder, range, target, AnswerCheck::kByCaller);
}

Status TierPeers::ReadChecked(int64_t holder, const BlockRange& range,
                              std::span<char> target, AnswerCheck check) {
  if (holder == rank_) return steps_->Read(range, target);
  if (target.empty()) return Status();
  received_bytes_ += target.size();
  const TierRequest kind = check == AnswerCheck::kHere
                               ? TierRequest::kBlocks
                               : TierRequest::kBlocksUnchecked;
  return Ask(holder, RequestOf(kind, EncodeBlockRange(range)), target, check)
      .status();
}

Result<Bytes> TierPeers::ReadFile(int64_t holder, const TierMember& member,
                                  std::string_view name) {
  if (holder == rank_) return steps_->ReadFile(member, name);
  std::string request = RequestOf(TierRequest::kFile);
  PutString(request, DirectoryNameOf(member));
  PutString(request, name);
  HF_ASSIGN_OR_RETURN(Bytes bytes, Ask(holder, request));
  received_bytes_ += bytes.size();
  return bytes;
}

}  // namespace holdfast
