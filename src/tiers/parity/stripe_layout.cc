#include "tiers/parity/stripe_layout.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace holdfast {
namespace {

constexpr size_t kMemberCountMax = 255;
// With these limits, parity offsets fit into 64 bits, whatever n and m are.
constexpr uint64_t kDataBytesMax = uint64_t{1} << 53;
constexpr uint64_t kBlockBytesMax = uint64_t{1} << 40;

}  // namespace

Result<StripeLayout> StripeLayout::Make(std::vector<uint64_t> data_bytes,
                                        int64_t parity_count,
                                        uint64_t block_bytes) {
  if (parity_count < 0 || data_bytes.size() > kMemberCountMax ||
      static_cast<int64_t>(data_bytes.size()) <= parity_count) {
    return InvalidArgumentError(
        "stripes of parity: want more members than parities, at most " +
        std::to_string(kMemberCountMax) + " (got " +
        std::to_string(data_bytes.size()) + " and " +
        std::to_string(parity_count) + ")");
  }
  const uint64_t most = *std::max_element(data_bytes.begin(), data_bytes.end());
  if (block_bytes < 1 || block_bytes > kBlockBytesMax || most > kDataBytesMax) {
    return InvalidArgumentError(
        "stripes of parity: want blocks of 1 to 2^40 bytes and members of at "
        "most 2^53 (got " +
        std::to_string(block_bytes) + " and " + std::to_string(most) + ")");
  }
  return StripeLayout(std::move(data_bytes), parity_count, block_bytes);
}

StripeLayout::StripeLayout(std::vector<uint64_t> data_bytes,
                           int64_t parity_count, uint64_t block_bytes)
    : data_bytes_(std::move(data_bytes)),
      data_count_(static_cast<int64_t>(data_bytes_.size()) - parity_count),
      parity_count_(parity_count),
      block_bytes_(block_bytes),
      parity_block_counts_(data_bytes_.size(), 0),
      parity_bytes_(data_bytes_.size(), 0) {
  int64_t blocks_max = 0;
  for (int64_t i = 0; i < member_count(); ++i) {
    blocks_max = std::max(blocks_max, data_block_count(i));
  }
  const int64_t row_count = (blocks_max + data_count_ - 1) / data_count_;
  for (int64_t i = 0; i < member_count(); ++i) {
    // The last parity block that has bytes determines the block count.
    for (int64_t q = row_count * parity_count_; q-- > 0;) {
      const int64_t t = Wrapped(i - q % parity_count_);
      const uint64_t byte_count = StripeBytes(q / parity_count_, t);
      if (byte_count == 0) continue;
      const auto at = static_cast<size_t>(i);
      parity_block_counts_[at] = q + 1;
      parity_bytes_[at] = static_cast<uint64_t>(q) * block_bytes_ + byte_count;
      break;
    }
  }
}

int64_t StripeLayout::Wrapped(int64_t member) const {
  const int64_t rest = member % member_count();
  return rest < 0 ? rest + member_count() : rest;
}

int64_t StripeLayout::data_block_count(int64_t member) const {
  const uint64_t bytes = data_bytes_[static_cast<size_t>(member)];
  return static_cast<int64_t>(bytes / block_bytes_ +
                              (bytes % block_bytes_ != 0));
}

int64_t StripeLayout::parity_block_count(int64_t member) const {
  return parity_block_counts_[static_cast<size_t>(member)];
}

uint64_t StripeLayout::parity_bytes(int64_t member) const {
  return parity_bytes_[static_cast<size_t>(member)];
}

uint64_t StripeLayout::DataBytesOf(int64_t member, int64_t block) const {
  if (block >= data_block_count(member)) return 0;
  const uint64_t offset = static_cast<uint64_t>(block) * block_bytes_;
  return std::min(block_bytes_,
                  data_bytes_[static_cast<size_t>(member)] - offset);
}

uint64_t StripeLayout::StripeBytes(int64_t row, int64_t t) const {
  uint64_t byte_count = 0;
  for (int64_t j = 0; j < data_count_; ++j) {
    byte_count = std::max(
        byte_count,
        DataBytesOf(Wrapped(t + parity_count_ + j), row * data_count_ + j));
  }
  return byte_count;
}

StripeLayout::Stripe StripeLayout::At(int64_t row, int64_t t,
                                      int64_t own) const {
  Stripe stripe{.own = own, .byte_count = StripeBytes(row, t)};
  for (int64_t j = 0; j < data_count_; ++j) {
    const int64_t member = Wrapped(t + parity_count_ + j);
    const int64_t block = row * data_count_ + j;
    stripe.shards.push_back({member, false, block,
                             static_cast<uint64_t>(block) * block_bytes_,
                             DataBytesOf(member, block)});
  }
  for (int64_t p = 0; p < parity_count_; ++p) {
    const int64_t block = row * parity_count_ + p;
    stripe.shards.push_back({Wrapped(t + p), true, block,
                             static_cast<uint64_t>(block) * block_bytes_,
                             stripe.byte_count});
  }
  return stripe;
}

StripeLayout::Stripe StripeLayout::OfData(int64_t member, int64_t block) const {
  assert(block >= 0 && block < data_block_count(member));
  const int64_t j = block % data_count_;
  return At(block / data_count_, Wrapped(member - parity_count_ - j), j);
}

StripeLayout::Stripe StripeLayout::OfParity(int64_t member,
                                            int64_t block) const {
  assert(block >= 0 && block < parity_block_count(member));
  const int64_t p = block % parity_count_;
  return At(block / parity_count_, Wrapped(member - p), data_count_ + p);
}

}  // namespace holdfast
