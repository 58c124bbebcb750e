// StripeLayout: the places of a group's parity, which every member can compute
// on its own.
//
// A group has g = n + m members, each with its own data, divided into blocks of
// block_bytes (the last may be shorter). Row r has g stripes t = 0..g-1. Each
// stripe has n data blocks and m parity blocks on g members, one on each:
// parity p on member (t + p) mod g, data position j on member (t + m + j) mod
// g. Parity is thus spread over all members as evenly as the data.
//   data block k of member i:     row k / n, position j = k % n,
//                                 t = (i - m - j) mod g, at k * block_bytes
//   parity block q of member i:   row q / m, p = q % m, t = (i - p) mod g,
//                                 at q * block_bytes of its parity bytes
// A stripe is as long as its longest data block; shorter or missing blocks are
// padded with zeros. Trailing parity blocks of a member that have no bytes are
// not stored.
// Thread-safety: values; any thread. Units: bytes.
// Errors: InvalidArgument for invalid counts and sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct StripeShard {
  int64_t member;
  bool is_parity;
  int64_t block;        // index in the member's data or parity
  uint64_t offset;      // in the member's data or parity bytes
  uint64_t byte_count;  // stored; the rest of the stripe is zeros
};

class StripeLayout {
 public:
  // `data_bytes` are the sizes of the members' data. There must be more than
  // parity_count and at most 255 members, each with at most 2^53 bytes, and
  // blocks of 1 to 2^40 bytes.
  static Result<StripeLayout> Make(std::vector<uint64_t> data_bytes,
                                   int64_t parity_count, uint64_t block_bytes);

  int64_t member_count() const { return data_count_ + parity_count_; }
  int64_t data_count() const { return data_count_; }
  int64_t parity_count() const { return parity_count_; }
  uint64_t block_bytes() const { return block_bytes_; }

  // For all functions below, REQUIRES: member and block are in range.
  int64_t data_block_count(int64_t member) const;
  int64_t parity_block_count(int64_t member) const;
  uint64_t parity_bytes(int64_t member) const;

  struct Stripe {
    std::vector<StripeShard> shards;  // data 0..n-1, parity n..n+m-1
    int64_t own;                      // index of the requested shard
    uint64_t byte_count;
  };
  Stripe OfData(int64_t member, int64_t block) const;
  Stripe OfParity(int64_t member, int64_t block) const;

 private:
  StripeLayout(std::vector<uint64_t> data_bytes, int64_t parity_count,
               uint64_t block_bytes);
  int64_t Wrapped(int64_t member) const;
  uint64_t DataBytesOf(int64_t member, int64_t block) const;
  uint64_t StripeBytes(int64_t row, int64_t t) const;
  Stripe At(int64_t row, int64_t t, int64_t own) const;

  std::vector<uint64_t> data_bytes_;
  int64_t data_count_;
  int64_t parity_count_;
  uint64_t block_bytes_;
  std::vector<int64_t> parity_block_counts_;
  std::vector<uint64_t> parity_bytes_;
};

}  // namespace holdfast
