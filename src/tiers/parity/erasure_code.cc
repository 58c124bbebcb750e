#include "tiers/parity/erasure_code.h"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <string>
#include <utility>

namespace holdfast {
namespace {

constexpr int64_t kShardCountMax = 255;
// The width of isa-l's widest vectors, and the most bytes per call of isa-l,
// which counts in ints.
constexpr size_t kVectorBytes = 64;
constexpr size_t kRunBytesMax = size_t{1} << 30;

// The products of one coefficient with 0..15, and with 0, 16, ..., 240.
using ProductTable = std::array<unsigned char, 32>;

ProductTable ProductsOf(uint8_t coefficient) {
  ProductTable table;
  unsigned char factor = coefficient;
  ec_init_tables(1, 1, &factor, table.data());
  return table;
}

// Multiplies in the field that isa-l uses: GF(2^8) with the polynomial x^8 +
// x^4 + x^3 + x^2 + 1. isa-l's own function gf_mul is not called: libcrypto has
// a function of the same name, and a program that links both calls the wrong
// one.
uint8_t Product(uint8_t a, uint8_t b) {
  constexpr int kPolynomial = 0x11D;
  int product = 0;
  for (int x = a, y = b; y != 0; y >>= 1) {
    if (y & 1) product ^= x;
    x <<= 1;
    if (x & 0x100) x ^= kPolynomial;
  }
  return static_cast<uint8_t>(product);
}

// Returns 1 / a as a^254, since a^255 is 1. REQUIRES: a is not 0.
uint8_t Inverse(uint8_t a) {
  uint8_t inverse = 1;
  for (int i = 0; i < 254; ++i) inverse = Product(inverse, a);
  return inverse;
}

// Inverts a square submatrix of a Cauchy matrix by Gauss-Jordan elimination. No
// pivot is 0 along the way, so rows need not be exchanged.
std::vector<uint8_t> InverseOf(std::vector<uint8_t> square, size_t side) {
  std::vector<uint8_t> inverse(square.size());
  for (size_t i = 0; i < side; ++i) inverse[i * side + i] = 1;
  for (size_t i = 0; i < side; ++i) {
    assert(square[i * side + i] != 0);
    const uint8_t scale = Inverse(square[i * side + i]);
    for (size_t j = 0; j < side; ++j) {
      square[i * side + j] = Product(square[i * side + j], scale);
      inverse[i * side + j] = Product(inverse[i * side + j], scale);
    }
    for (size_t row = 0; row < side; ++row) {
      const uint8_t factor = square[row * side + i];
      if (row == i || factor == 0) continue;
      for (size_t j = 0; j < side; ++j) {
        square[row * side + j] ^= Product(factor, square[i * side + j]);
        inverse[row * side + j] ^= Product(factor, inverse[i * side + j]);
      }
    }
  }
  return inverse;
}

}  // namespace

ErasureCode::ErasureCode(int64_t data_count, int64_t parity_count)
    : data_count_(data_count), parity_count_(parity_count) {
  const auto n = static_cast<size_t>(data_count);
  const auto m = static_cast<size_t>(parity_count);
  if (m == 1) {
    // A single parity is the XOR of the data.
    coefficients_.assign(n, 1);
    return;
  }
  // A Cauchy matrix has 1 / (x + y), for x and y that are all different.
  for (size_t i = n; i < n + m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      coefficients_.push_back(Inverse(static_cast<uint8_t>(i ^ j)));
    }
  }
}

Result<ErasureCode> ErasureCode::Make(int64_t data_count,
                                      int64_t parity_count) {
  if (data_count < 1 || parity_count < 0 || data_count > kShardCountMax ||
      parity_count > kShardCountMax - data_count) {
    return InvalidArgumentError(
        "an erasure code: want at least 1 data shard, and with parity at "
        "most " +
        std::to_string(kShardCountMax) + " (got " + std::to_string(data_count) +
        " and " + std::to_string(parity_count) + ")");
  }
  return ErasureCode(data_count, parity_count);
}

uint8_t ErasureCode::coefficient(int64_t parity, int64_t data) const {
  assert(parity >= 0 && parity < parity_count_);
  assert(data >= 0 && data < data_count_);
  return coefficients_[static_cast<size_t>(parity * data_count_ + data)];
}

void AddProduct(uint8_t coefficient, std::span<const char> source,
                std::span<char> target) {
  assert(source.size() <= target.size());
  if (coefficient == 0) return;
  ProductTable table = ProductsOf(coefficient);
  size_t done = 0;
  while (source.size() - done >= kVectorBytes) {
    const size_t left = source.size() - done;
    const size_t count = std::min(left - left % kVectorBytes, kRunBytesMax);
    // isa-l writes only to the target, although its parameter is not const.
    auto* const from = const_cast<unsigned char*>(
        reinterpret_cast<const unsigned char*>(source.data() + done));
    auto* const to = reinterpret_cast<unsigned char*>(target.data() + done);
    gf_vect_mad(static_cast<int>(count), 1, 0, table.data(), from, to);
    done += count;
  }
  for (; done < source.size(); ++done) {
    const auto byte = static_cast<unsigned char>(source[done]);
    // The product of a byte is the sum of the products of its two half-bytes.
    const int product = table[byte & 15] ^ table[size_t{16} + (byte >> 4)];
    target[done] = static_cast<char>(target[done] ^ product);
  }
}

Result<std::vector<ErasureCode::Term>> ErasureCode::TermsOf(
    int64_t wanted, std::span<const int64_t> available) const {
  const auto n = static_cast<size_t>(data_count_);
  const size_t shard_count = n + static_cast<size_t>(parity_count_);
  std::vector<bool> is_there(shard_count);
  for (const int64_t shard : available) {
    if (shard < 0 || static_cast<size_t>(shard) >= shard_count) {
      return InvalidArgumentError("an erasure code has no shard " +
                                  std::to_string(shard));
    }
    is_there[static_cast<size_t>(shard)] = true;
  }
  if (wanted < 0 || static_cast<size_t>(wanted) >= shard_count) {
    return InvalidArgumentError("an erasure code has no shard " +
                                std::to_string(wanted));
  }
  // The wanted shard is computed from the others, even if it is available.
  is_there[static_cast<size_t>(wanted)] = false;
  // For each missing data shard, one parity shard is needed to determine it.
  std::vector<size_t> missing, parities;
  for (size_t j = 0; j < n; ++j) {
    if (!is_there[j]) missing.push_back(j);
  }
  for (size_t s = n; s < shard_count && parities.size() < missing.size(); ++s) {
    if (is_there[s]) parities.push_back(s - n);
  }
  const size_t side = missing.size();
  if (parities.size() < side) {
    return DataLossError("too few shards are left (got " +
                         std::to_string(n - side + parities.size()) +
                         ", want " + std::to_string(n) + ")");
  }
  std::vector<uint8_t> square;
  for (const size_t p : parities) {
    for (const size_t j : missing) square.push_back(coefficients_[p * n + j]);
  }
  const std::vector<uint8_t> inverse = InverseOf(std::move(square), side);

  // Shard `wanted` is a sum of data shards. In it, each missing shard is
  // replaced by a sum of parity shards and existing data shards.
  const auto factor = [&](size_t data) -> uint8_t {
    const auto w = static_cast<size_t>(wanted);
    return w < n ? w == data : coefficients_[(w - n) * n + data];
  };
  std::vector<uint8_t> of_parity(side);
  for (size_t p = 0; p < side; ++p) {
    for (size_t i = 0; i < side; ++i) {
      of_parity[p] ^= Product(factor(missing[i]), inverse[i * side + p]);
    }
  }
  std::vector<Term> terms;
  const auto add = [&terms](size_t shard, uint8_t coefficient) {
    if (coefficient == 0) return;
    terms.push_back({static_cast<int64_t>(shard), coefficient});
  };
  for (size_t j = 0; j < n; ++j) {
    if (!is_there[j]) continue;
    uint8_t sum = factor(j);
    for (size_t p = 0; p < side; ++p) {
      sum ^= Product(of_parity[p], coefficients_[parities[p] * n + j]);
    }
    add(j, sum);
  }
  for (size_t p = 0; p < side; ++p) add(n + parities[p], of_parity[p]);
  return terms;
}

}  // namespace holdfast
