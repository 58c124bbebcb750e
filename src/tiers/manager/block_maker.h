// BlockMaker: makes blocks of one parity group from those of its other members:
// parity after a save, and whatever was lost or damaged before a restore.
//
// Data that parity is made of is compared with its checksum before, and data
// that is made of others before it is given out.
// Thread-safety: any thread. Ownership: borrows all it is given. Units: bytes.
// Errors: DataLoss naming the rank and block whose bytes are not those of its
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
  // `members`: where the blocks of each member are, and which are bad.
  static Result<std::unique_ptr<BlockMaker>> Make(
      std::shared_ptr<const GroupRecord> group, PlannedGroup members,
      TierPeers& peers, RateLimit& limit);

  const StripeLayout& layout() const { return layout_; }
  // A member's data block, from other blocks of its stripe.
  Status MakeData(int64_t member, int64_t block, std::span<char> target) const;
  // A member's parity block, from data that must all be there.
  Status MakeParity(int64_t member, int64_t block,
                    std::span<char> target) const;
  // A data block as its holder has it, or made where that is damaged.
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

// All members are there and whole, each with the rank of its number.
PlannedGroup WholeGroup(const GroupRecord& group);

// Makes `blocks` by `make` into `files`, `thread_count` at a time; gives the
// CRC-32C of each.
Result<std::vector<uint32_t>> WriteBlocks(
    const std::vector<int64_t>& blocks, BlockFiles& files, int thread_count,
    const std::function<Status(int64_t block, std::span<char> target)>& make);

}  // namespace holdfast
