// Measures the coding of deltas, in one thread and in memory.
//
// usage: deltas BASE NEXT WORD_BYTES MANTISSA_BITS [ROUNDS]
//   BASE, NEXT: files of little-endian elements, of equal size
//
// Encodes NEXT against BASE in chunks of 8 MiB, and decodes it. Prints JSON:
// raw and encoded bytes, and GB/s of raw bytes, medians of the rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "formats/delta/chunk_delta.h"

namespace holdfast {
namespace {

constexpr size_t kChunkBytes = size_t{8} << 20;

Buffer ReadAll(const char* path, size_t& byte_count) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  byte_count = text.size();
  Buffer buffer(std::max<size_t>(1, byte_count));
  std::copy(text.begin(), text.end(), buffer.data());
  return buffer;
}

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr,
                 "usage: deltas BASE NEXT WORD_BYTES MANTISSA_BITS [ROUNDS]\n");
    return 2;
  }
  size_t byte_count = 0, next_bytes = 0;
  const Buffer base = ReadAll(argv[1], byte_count);
  const Buffer next = ReadAll(argv[2], next_bytes);
  const WordKind kind{std::atoi(argv[3]), std::atoi(argv[4])};
  const int round_count = argc > 5 ? std::atoi(argv[5]) : 5;
  if (byte_count != next_bytes || byte_count % kind.word_bytes != 0) return 2;
  ChunkDelta delta;
  std::vector<double> encode, decode;
  size_t coded_bytes = 0;
  Buffer words(byte_count);
  for (int round = 0; round < round_count; ++round) {
    std::vector<std::string> coded;
    encode.push_back(SecondsOf([&] {
      for (size_t at = 0; at < byte_count; at += kChunkBytes) {
        const size_t count = std::min(kChunkBytes, byte_count - at);
        coded.push_back(*delta.Encode(kind, base.view().substr(at, count),
                                      next.view().substr(at, count)));
      }
    }));
    std::copy_n(base.data(), byte_count, words.data());
    decode.push_back(SecondsOf([&] {
      for (size_t i = 0; i < coded.size(); ++i) {
        const size_t at = i * kChunkBytes;
        const size_t count = std::min(kChunkBytes, byte_count - at);
        const Status applied =
            delta.Apply(kind, coded[i], std::span(words.data() + at, count));
        if (!applied.ok()) std::abort();
      }
    }));
    if (words.view() != next.view().substr(0, byte_count)) std::abort();
    coded_bytes = 0;
    for (const std::string& one : coded) coded_bytes += one.size();
  }
  const double giga = static_cast<double>(byte_count) / 1e9;
  std::printf(
      "{\"raw_bytes\": %zu, \"coded_bytes\": %zu, \"encode\": %.3f, "
      "\"decode\": %.3f}\n",
      byte_count, coded_bytes, giga / Median(encode), giga / Median(decode));
  return 0;
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) { return holdfast::Main(argc, argv); }
