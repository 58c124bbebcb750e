// TierPeers: the connections between the ranks of a tiered run. They carry the
// messages of process groups, and blocks.
//
// Thread-safety: any thread, also for its transport. Ownership: owns its
// server; borrows the ServedSteps. Units: seconds.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/base/buffer_pool.h"
#include "ground/base/cancel.h"
#include "ground/base/wait_time.h"
#include "holdfast/process_group.h"
#include "holdfast/tiers/tiered_manager.h"
#include "tiers/manager/served_steps.h"
#include "tiers/peers/peer_client.h"
#include "tiers/peers/peer_server.h"

namespace holdfast {

class TierPeers {
 public:
  // All ranks of `group` must call this. A null `group` means a single rank,
  // which has no server.
  static Result<std::unique_ptr<TierPeers>> Start(
      const TieredManagerOptions& options, ServedSteps* steps,
      ProcessGroup* group);
  ~TierPeers();

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  // Returns "rank 3 (node-7)", for example.
  const std::string& NameOf(int64_t rank) const { return names_[rank]; }

  // Makes a group of all ranks. Groups with different names may be used
  // concurrently.
  std::unique_ptr<ProcessGroup> MakeGroup(const std::string& name);

  // Reads blocks from `holder`, which may be this rank.
  Status Read(int64_t holder, const BlockRange& range, std::span<char> target);
  // Like Read, but without a copy on the other side and without checksums in
  // transit. For callers that have a checksum of the blocks, or of what they
  // make from them.
  Status ReadUnchecked(int64_t holder, const BlockRange& range,
                       std::span<char> target);
  Result<Bytes> ReadFile(int64_t holder, const TierMember& member,
                         std::string_view name);
  // How many bytes Read and ReadFile have received from other ranks.
  uint64_t received_bytes() const { return received_bytes_; }

  // Makes all waiting calls fail soon.
  void Cancel() { cancel_.Cancel(); }
  const CancelToken& cancel() const { return cancel_; }

 private:
  class Transport;
  class Mailbox;

  TierPeers(const TieredManagerOptions& options, ServedSteps* steps,
            ProcessGroup* group);
  Status Connect(const TieredManagerOptions& options, ProcessGroup& group);
  Result<PeerAnswer> Answer(std::string_view request);
  Result<PeerAnswer> AnswerRead(std::string_view request);
  Result<PeerAnswer> AnswerFiles(std::string_view request);
  Status ReadChecked(int64_t holder, const BlockRange& range,
                     std::span<char> target, AnswerCheck check);
  Result<Bytes> Ask(int64_t rank, std::string_view request,
                    std::span<char> target = {},
                    AnswerCheck check = AnswerCheck::kHere);

  const int64_t rank_;
  const int64_t size_;
  const double answer_seconds_max_;
  const double timeout_seconds_;
  ServedSteps* const steps_;
  std::vector<std::string> names_;
  std::vector<PeerAddress> addresses_;
  CancelToken cancel_;
  std::mutex lost_mutex_;
  struct Lost {
    Status status;
    WaitClock::time_point until;
  };
  std::map<int64_t, Lost> lost_;  // ranks that did not answer
  std::atomic<uint64_t> received_bytes_ = 0;
  std::unique_ptr<Mailbox> mailbox_;
  BufferPool answers_;
  std::unique_ptr<PeerClient> client_;
  std::unique_ptr<PeerServer> server_;  // destroyed first
};

}  // namespace holdfast
