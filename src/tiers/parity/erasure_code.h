// ErasureCode: n data shards and m parity shards, any n of which determine the
// others.
//
// A systematic Reed-Solomon code over GF(2^8) (polynomial 0x11D): a parity byte
// is the sum, over the data shards, of a coefficient times the byte at the same
// offset. The coefficients are a Cauchy matrix, whose square submatrices are
// all invertible. With one parity shard, all coefficients are 1, and the parity
// is the XOR. The coefficients determine what is on disk, so the same n and m
// must always have the same coefficients.
// Thread-safety: values; any thread. Ownership: borrows its arguments.
// Units: bytes. Errors: InvalidArgument for invalid counts and shards; DataLoss
// if too few shards are left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

class ErasureCode {
 public:
  // Makes a code. InvalidArgument unless data_count >= 1, parity_count >= 0,
  // and their sum is at most 255.
  static Result<ErasureCode> Make(int64_t data_count, int64_t parity_count);

  int64_t data_count() const { return data_count_; }
  int64_t parity_count() const { return parity_count_; }
  // Returns the factor of a data shard in a parity shard. REQUIRES: both
  // indexes are in range.
  uint8_t coefficient(int64_t parity, int64_t data) const;

  struct Term {
    int64_t shard;
    uint8_t coefficient;  // not 0
  };
  // Returns the terms whose sum is shard `wanted`: the sum of coefficient *
  // shard. Shards 0..n-1 are data, shards n..n+m-1 are parity. Data shards are
  // preferred, and parity is used only for missing data. Shard `wanted` is
  // never a term, even if it is available. DataLoss if fewer than n other
  // shards are available.
  Result<std::vector<Term>> TermsOf(int64_t wanted,
                                    std::span<const int64_t> available) const;

 private:
  ErasureCode(int64_t data_count, int64_t parity_count);

  int64_t data_count_;
  int64_t parity_count_;
  std::vector<uint8_t> coefficients_;  // a row of data_count_ for each parity
};

// Adds coefficient * source to target: target[i] ^= coefficient * source[i] for
// i < source.size(). REQUIRES: source.size() <= target.size(); the two do not
// overlap.
void AddProduct(uint8_t coefficient, std::span<const char> source,
                std::span<char> target);

}  // namespace holdfast
