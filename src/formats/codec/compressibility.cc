#include "formats/codec/compressibility.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "formats/codec/codec_context.h"
#include "ground/base/coding.h"

namespace holdfast {
namespace {

constexpr size_t kWindowBytes = 4096;
constexpr size_t kWindowCountMin = 8;
constexpr size_t kWindowCountMax = 32;
constexpr size_t kWindowSpacingBytes = size_t{128} << 10;
constexpr size_t kWindowSpacingBytesMin = size_t{16} << 10;
constexpr size_t kRepeatSearchBytes = size_t{64} << 10;

using Histogram = std::array<uint16_t, 256>;

// Uses four tables, so that runs of equal bytes do not wait for the same
// counter.
Histogram CountWindow(std::string_view window) {
  std::array<Histogram, 4> counts{};
  size_t i = 0;
  for (; i + 8 <= window.size(); i += 8) {
    const auto word = LoadLittle<uint64_t>(window.data() + i);
    for (int k = 0; k < 8; ++k) ++counts[k % 4][word >> (8 * k) & 0xFF];
  }
  for (; i < window.size(); ++i) ++counts[0][static_cast<uint8_t>(window[i])];
  for (size_t b = 0; b < 256; ++b) {
    counts[0][b] += counts[1][b] + counts[2][b] + counts[3][b];
  }
  return counts[0];
}

// Returns c * log2(c) for every possible count in a window.
const std::array<float, kWindowBytes + 1>& CountLogTable() {
  static const auto table = [] {
    std::array<float, kWindowBytes + 1> logs{};
    for (size_t c = 2; c <= kWindowBytes; ++c) {
      logs[c] = static_cast<float>(c * std::log2(static_cast<double>(c)));
    }
    return logs;
  }();
  return table;
}

// Created before threads start: if a thread forked while another one created
// the table, the child would wait for it forever.
[[maybe_unused]] const auto& count_logs_made_at_start = CountLogTable();

// Returns the fraction of the window that order-0 entropy coding saves, with
// the correction of Miller and Madow. Without it, a window of 4096 random bytes
// would look 0.6 % compressible. Each `block_bytes` bytes share one Huffman
// table of about 4 bits per symbol.
double WindowSaving(std::string_view window, size_t block_bytes) {
  const Histogram counts = CountWindow(window);
  const auto& logs = CountLogTable();
  const auto total = static_cast<double>(window.size());
  double sum = 0;
  int distinct = 0;
  for (uint16_t count : counts) {
    sum += logs[count];
    distinct += count > 0;
  }
  const double bias = (distinct - 1) / (2 * total * std::log(2.0));
  const double entropy_bits = std::log2(total) - sum / total + bias;
  const double table_bytes = distinct > 1 ? distinct / 2.0 : 0;
  return 1 - entropy_bits / 8 - table_bytes / static_cast<double>(block_bytes);
}

// Calls fn(window) for each window, in order.
template <typename Fn>
void ForEachWindow(std::string_view in, const Fn& fn) {
  const size_t window_bytes = std::min(in.size(), kWindowBytes);
  const size_t wanted = std::clamp(in.size() / kWindowSpacingBytes,
                                   kWindowCountMin, kWindowCountMax);
  const size_t count =
      std::clamp<size_t>(in.size() / kWindowSpacingBytesMin, 1, wanted);
  const size_t stride =
      count > 1 ? (in.size() - window_bytes) / (count - 1) : 0;
  for (size_t i = 0; i < count; ++i) fn(in.substr(i * stride, window_bytes));
}

bool ComesAgain(std::string_view in, size_t probe) {
  if (in.size() < probe + 16) return false;
  const auto word = LoadLittle<uint64_t>(in.data() + probe);
  const std::string_view rest =
      in.substr(probe + 8, std::min(kRepeatSearchBytes, in.size() - probe - 8));
  // There is no early exit, so that the compiler can vectorize the loop.
  bool found = false;
  for (size_t i = 0; i + 8 <= rest.size(); i += 8) {
    found |= LoadLittle<uint64_t>(rest.data() + i) == word;
  }
  return found;
}

}  // namespace

double EstimateLiteralSaving(std::string_view in) {
  const size_t block_bytes = std::min(in.size(), size_t{128} << 10);
  double sum = 0;
  int count = 0;
  ForEachWindow(in, [&](std::string_view window) {
    sum += WindowSaving(window, block_bytes);
    ++count;
  });
  return std::max(0.0, sum / count);
}

double EstimateMatchSaving(std::string_view in, CodecContext& context,
                           int level, int match_bytes_min) {
  auto& impl = context.impl();
  const size_t sample_bytes_max = kWindowCountMax * kWindowBytes;
  const size_t scratch_bytes = ZSTD_compressBound(sample_bytes_max);
  ZSTD_CCtx* const compressor = impl.ZstdCompressor();
  if (compressor == nullptr ||
      !ReserveOrFail(sample_bytes_max + scratch_bytes, impl.sample).ok()) {
    return 0;
  }
  char* const sample = impl.sample.data();
  size_t sample_bytes = 0;
  ForEachWindow(in, [&](std::string_view window) {
    std::memcpy(sample + sample_bytes, window.data(), window.size());
    sample_bytes += window.size();
  });
  // Negative levels do not code literals, so matches account for the entire
  // saving.
  ZSTD_CCtx_reset(compressor, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(compressor, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(compressor, ZSTD_c_minMatch, match_bytes_min);
  const size_t encoded_bytes =
      ZSTD_compress2(compressor, sample + sample_bytes_max, scratch_bytes,
                     sample, sample_bytes);
  if (ZSTD_isError(encoded_bytes) || encoded_bytes >= sample_bytes) return 0;
  return 1 - static_cast<double>(encoded_bytes) / sample_bytes;
}

bool HasDistantRepeat(std::string_view in) {
  // A repeat at a distance larger than a window (for example, two equal layers
  // in one chunk) shows in no window.
  return ComesAgain(in, in.size() / 3) || ComesAgain(in, in.size() / 3 * 2);
}

}  // namespace holdfast
