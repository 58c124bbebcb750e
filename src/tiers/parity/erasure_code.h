// ErasureCode: n data shards and m parity shards, any n of which determine the
// others.
//
// A systematic Reed-Solomon code over GF(2^8) (polynomial 0x11D): a parity byte
// is the sum, over the data shards, of a coefficient times the byte at the same
// offset. The coefficients are a Cauchy matrix, whose square submatrices are
// all invertible; with one parity shard, all coefficients are 1, and the parity
// is the XOR. They determine what is on disk: the same n and m always have the
// same coefficients.
// Thread-safety: values; any thread. Ownership: borrows its arguments.
// Units: bytes. Errors: InvalidArgument for impossible counts and shards;
// DataLoss if too few shards are left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

class ErasureCode {
 public:
  // REQUIRES: data_count >= 1, parity_count >= 0, together at most 255;
  // otherwise InvalidArgument.
  static Result<ErasureCode> Make(int64_t data_count, int64_t parity_count);

  int64_t data_count() const { return data_count_; }
  int64_t parity_count() const { return parity_count_; }
  // REQUIRES: both in range.
  uint8_t coefficient(int64_t parity, int64_t data) const;

  struct Term {
    int64_t shard;
    uint8_t coefficient;  // not 0
  };
  // Shards 0..n-1 are data, n..n+m-1 parity. The sum of coefficient * shard
  // over the terms is shard `wanted`. Data shards are preferred, and parity is
  // used only for missing data. Shard `wanted` is never a term, even if it is
  // available. DataLoss when fewer than n other shards are available.
  Result<std::vector<Term>> TermsOf(int64_t wanted,
                                    std::span<const int64_t> available) const;

 private:
  ErasureCode(int64_t data_count, int64_t parity_count);

  int64_t data_count_;
  int64_t parity_count_;
  std::vector<uint8_t> coefficients_;  // a row of data_count_ for each parity
};

// Adds: target[i] ^= coefficient * source[i] for i < source.size(). REQUIRES:
// source.size() <= target.size(); they do not overlap.
void AddProduct(uint8_t coefficient, std::span<const char> source,
                std::span<char> target);

}  // namespace holdfast
