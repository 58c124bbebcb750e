#include "tiers/manager/block_maker.h"

#include <algorithm>
#include <cstring>

#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast {

BlockMaker::BlockMaker(std::shared_ptr<const GroupRecord> group,
                       PlannedGroup members, StripeLayout layout,
                       ErasureCode code, TierPeers& peers, RateLimit& limit)
    : group_(std::move(group)),
      members_(std::move(members)),
      layout_(std::move(layout)),
      code_(std::move(code)),
      peers_(peers),
      limit_(limit) {}

Result<std::unique_ptr<BlockMaker>> BlockMaker::Make(
    std::shared_ptr<const GroupRecord> group, PlannedGroup members,
    TierPeers& peers, RateLimit& limit) {
  HF_ASSIGN_OR_RETURN(
      StripeLayout layout,
      StripeLayout::Make(group->data_bytes(), group->parity_count,
                         group->block_bytes));
  HF_ASSIGN_OR_RETURN(
      ErasureCode code,
      ErasureCode::Make(layout.data_count(), layout.parity_count()));
  return std::unique_ptr<BlockMaker>(
      new BlockMaker(std::move(group), std::move(members), std::move(layout),
                     std::move(code), peers, limit));
}

std::string BlockMaker::NameOf(int64_t member) const {
  const int64_t rank = group_->ranks()[member];
  return "step " + std::to_string(group_->step.step) + ", rank " +
         std::to_string(rank) + " (" + group_->hosts[rank] + ")";
}

Status BlockMaker::CheckData(int64_t member, int64_t block,
                             std::span<const char> bytes) const {
  const uint32_t wanted = group_->members[member].block_sums[block];
  if (Crc32c({bytes.data(), bytes.size()}) == wanted) return Status();
  return DataLossError(NameOf(member) + ": block " + std::to_string(block) +
                       " is not what its checksum says");
}

Status BlockMaker::ReadShard(const StripeShard& shard,
                             std::span<char> target) const {
  const PlannedMember& member = members_.members[shard.member];
  HF_RETURN_IF_ERROR(limit_.Take(target.size()));
  const BlockRange range{
      {group_->step, member.rank},
      shard.is_parity ? BlockKind::kParity : BlockKind::kData,
      shard.offset,
      target.size()};
  return peers_.ReadUnchecked(member.holder, range, target);
}

// Compares a data shard with its checksum. Only its holder has the checksum of
// a parity shard, but what is made from it is checked.
Status BlockMaker::CheckShard(const StripeShard& shard,
                              std::span<const char> bytes) const {
  if (shard.is_parity) return Status();
  return CheckData(shard.member, shard.block, bytes);
}

Result<std::shared_ptr<Buffer>> BlockMaker::TakeScratch(
    uint64_t byte_count) const {
  std::shared_ptr<Buffer> scratch = scratch_.Get(byte_count);
  if (scratch != nullptr) return scratch;
  return ResourceExhaustedError("no memory for a block of " +
                                std::to_string(byte_count) + " bytes");
}

Status BlockMaker::MakeData(int64_t member, int64_t block,
                            std::span<char> target) const {
  const StripeLayout::Stripe stripe = layout_.OfData(member, block);
  std::vector<int64_t> available;
  for (size_t i = 0; i < stripe.shards.size(); ++i) {
    if (static_cast<int64_t>(i) == stripe.own) continue;
    const StripeShard& shard = stripe.shards[i];
    if (IsGood(members_, shard)) available.push_back(i);
  }
  HF_ASSIGN_OR_RETURN(const std::vector<ErasureCode::Term> terms,
                      code_.TermsOf(stripe.own, available));
  HF_ASSIGN_OR_RETURN(const auto part, TakeScratch(stripe.byte_count));
  // Only the last block of a member is shorter than its stripe.
  std::shared_ptr<Buffer> longer;
  std::span<char> sum =
      target.first(std::min<uint64_t>(target.size(), stripe.byte_count));
  if (target.size() < stripe.byte_count) {
    HF_ASSIGN_OR_RETURN(longer, TakeScratch(stripe.byte_count));
    sum = {longer->data(), stripe.byte_count};
  }
  const auto make = [&](bool checks_shards) {
    std::memset(sum.data(), 0, sum.size());
    for (const ErasureCode::Term& term : terms) {
      const StripeShard& shard = stripe.shards[term.shard];
      if (shard.byte_count == 0) continue;
      const std::span<char> bytes(part->data(), shard.byte_count);
      HF_RETURN_IF_ERROR(ReadShard(shard, bytes));
      if (checks_shards) HF_RETURN_IF_ERROR(CheckShard(shard, bytes));
      AddProduct(term.coefficient, bytes, sum);
    }
    return CheckData(member, block, sum.first(target.size()));
  };
  // The checksum of the result is enough. If it differs, the checksums of the
  // parts show which part was damaged.
  Status made = make(/*checks_shards=*/false);
  if (made.code() == StatusCode::kDataLoss) {
    made = make(/*checks_shards=*/true);
  }
  HF_RETURN_IF_ERROR(made);
  if (longer != nullptr) {
    std::memcpy(target.data(), sum.data(), target.size());
  }
  return Status();
}

Status BlockMaker::MakeParity(int64_t member, int64_t block,
                              std::span<char> target) const {
  const StripeLayout::Stripe stripe = layout_.OfParity(member, block);
  const int64_t parity = stripe.own - layout_.data_count();
  HF_ASSIGN_OR_RETURN(const auto part, TakeScratch(stripe.byte_count));
  std::memset(target.data(), 0, target.size());
  for (int64_t i = 0; i < layout_.data_count(); ++i) {
    const StripeShard& shard = stripe.shards[i];
    if (shard.byte_count == 0) continue;
    const std::span<char> bytes(part->data(), shard.byte_count);
    HF_RETURN_IF_ERROR(ReadShard(shard, bytes));
    HF_RETURN_IF_ERROR(CheckShard(shard, bytes));
    AddProduct(code_.coefficient(parity, i), bytes, target);
  }
  return Status();
}

Status BlockMaker::GetData(int64_t member, int64_t block,
                           std::span<char> target) const {
  const PlannedMember& planned = members_.members[member];
  const BlockRange range{{group_->step, planned.rank},
                         BlockKind::kData,
                         block * group_->block_bytes,
                         target.size()};
  const Status read = peers_.ReadUnchecked(planned.holder, range, target);
  const Status checked = read.ok() ? CheckData(member, block, target) : read;
  if (checked.ok() || layout_.parity_count() == 0) return checked;
  return MakeData(member, block, target);
}

PlannedGroup WholeGroup(const GroupRecord& group) {
  PlannedGroup whole;
  whole.group = group.group;
  whole.data_bytes = group.data_bytes();
  for (const int64_t rank : group.ranks()) {
    whole.members.push_back({rank, rank, rank, {}, {}});
  }
  return whole;
}

Result<std::vector<uint32_t>> WriteBlocks(
    const std::vector<int64_t>& blocks, BlockFiles& files, int thread_count,
    const std::function<Status(int64_t block, std::span<char> target)>& make) {
  std::vector<uint32_t> sums(blocks.size());
  HF_RETURN_IF_ERROR(ForEachBlock(
      blocks, files, thread_count, [&](size_t i, std::span<char> bytes) {
        HF_RETURN_IF_ERROR(make(blocks[i], bytes));
        sums[i] = Crc32c({bytes.data(), bytes.size()});
        return files.WriteBlock(blocks[i], {bytes.data(), bytes.size()});
      }));
  return sums;
}

}  // namespace holdfast
