// BlockMaker: computes blocks of a parity group from other members' blocks. It
// makes parity after a save, and rebuilds lost or damaged blocks before a
// restore.
//
// Data is compared with its checksums before parity is made from it, and
// rebuilt data before it is returned.
// Thread-safety: any thread. Ownership: borrows its arguments. Units: bytes.
// Errors: DataLoss, with the rank and block, for bytes that do not match their
// checksum; those of TierPeers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ground/base/buffer_pool.h"
#include "tiers/manager/rate_limit.h"
#include "tiers/manager/recovery_plan.h"
#include "tiers/manager/tier_peers.h"
#include "tiers/manager/tier_record.h"
#include "tiers/parity/erasure_code.h"
#include "tiers/parity/stripe_layout.h"

namespace holdfast {

class BlockMaker {
 public:
  // `members` says where each member's blocks are, and which of them are bad.
  static Result<std::unique_ptr<BlockMaker>> Make(
      std::shared_ptr<const GroupRecord> group, PlannedGroup members,
      TierPeers& peers, RateLimit& limit);

  const StripeLayout& layout() const { return layout_; }
  // Rebuilds a member's data block from other blocks of its stripe.
  Status MakeData(int64_t member, int64_t block, std::span<char> target) const;
  // Makes a member's parity block. All data of its stripe must exist.
  Status MakeParity(int64_t member, int64_t block,
                    std::span<char> target) const;
  // Reads a data block from its holder, or rebuilds it if it is damaged there.
  Status GetData(int64_t member, int64_t block, std::span<char> target) const;

 private:
  BlockMaker(std::shared_ptr<const GroupRecord> group, PlannedGroup members,
             StripeLayout layout, ErasureCode code, TierPeers& peers,
             RateLimit& limit);
  Status ReadShard(const StripeShard& shard, std::span<char> target) const;
  Status CheckShard(const StripeShard& shard,
                    std::span<const char> bytes) const;
  Result<std::shared_ptr<Buffer>> TakeScratch(uint64_t byte_count) const;
  Status CheckData(int64_t member, int64_t block,
                   std::span<const char> bytes) const;
  std::string NameOf(int64_t member) const;

  const std::shared_ptr<const GroupRecord> group_;
  const PlannedGroup members_;
  const StripeLayout layout_;
  const ErasureCode code_;
  TierPeers& peers_;
  RateLimit& limit_;
  mutable BufferPool scratch_;
};

// Returns a group whose members are all present and intact, each on the rank
// with its own number.
PlannedGroup WholeGroup(const GroupRecord& group);

// Makes `blocks` with `make` and writes them to `files`, `thread_count` at a
// time. Returns the CRC-32C of each block.
Result<std::vector<uint32_t>> WriteBlocks(
    const std::vector<int64_t>& blocks, BlockFiles& files, int thread_count,
    const std::function<Status(int64_t block, std::span<char> target)>& make);

}  // namespace holdfast
