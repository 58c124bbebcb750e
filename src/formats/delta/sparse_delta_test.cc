#include "formats/delta/sparse_delta.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "formats/delta/chunk_delta.h"
#include "formats/delta/rans.h"
#include "ground/base/coding.h"

namespace holdfast {
namespace {

// Words of one kind: weights as floats, of which the small ones change more
// often.
struct WordPair {
  std::string base;
  std::string next;
};

WordPair RandomWords(const WordKind& kind, size_t word_count, double density,
                     int jump_bits, std::mt19937_64& random) {
  WordPair words;
  std::uniform_real_distribution<double> part;
  for (size_t i = 0; i < word_count; ++i) {
    uint64_t word = random();
    if (kind.mantissa_bits >= 0) {  // exponents of a normal distribution
      const int sign_place = 8 * kind.word_bytes - 1;
      const uint64_t exponent_max =
          (uint64_t{1} << (sign_place - kind.mantissa_bits)) - 1;
      const auto below = static_cast<uint64_t>(-std::log2(part(random)));
      const uint64_t exponent =
          exponent_max / 2 - std::min(below, exponent_max / 2);
      word = (word & ((uint64_t{1} << kind.mantissa_bits) - 1)) |
             exponent << kind.mantissa_bits | (random() & 1) << sign_place;
    }
    uint64_t next = word;
    if (part(random) < density) {
      next += (random() & ((uint64_t{1} << jump_bits) - 1)) -
              (uint64_t{1} << (jump_bits - 1));
    }
    words.base.append(reinterpret_cast<const char*>(&word), kind.word_bytes);
    words.next.append(reinterpret_cast<const char*>(&next), kind.word_bytes);
  }
  return words;
}

std::string KindName(const WordKind& kind) {
  return std::to_string(kind.word_bytes) + " bytes, mantissa " +
         std::to_string(kind.mantissa_bits);
}

const WordKind kKinds[] = {{1, -1}, {1, 2},  {1, 3},  {1, 4},  {2, -1},
                           {2, 7},  {2, 10}, {4, -1}, {4, 23}, {8, -1}};

// The code under test compares 64 words at a time; the test compares each word.
TEST(SparseDelta, GivesTheWordsBackForEveryKindSizeAndDensity) {
  std::mt19937_64 random(23);
  SparseDelta delta;
  for (const WordKind& kind : kKinds) {
    for (const size_t word_count : {1, 63, 64, 65, 1000, 100000}) {
      for (const double density : {0.001, 0.02, 0.3, 1.0}) {
        for (const int jump_bits : {1, 2, 8 * kind.word_bytes - 1}) {
          if (word_count > 1000 && density > 0.5) continue;
          const WordPair words =
              RandomWords(kind, word_count, density, jump_bits, random);
          uint64_t want_count = 0;
          for (size_t i = 0; i < word_count; ++i) {
            want_count += std::memcmp(&words.base[i * kind.word_bytes],
                                      &words.next[i * kind.word_bytes],
                                      kind.word_bytes) != 0;
          }
          ASSERT_EQ(delta.CountChanges(kind, words.base, words.next),
                    want_count);
          const std::string coded = delta.Encode(kind, words.base, words.next);
          std::string got = words.base;
          ASSERT_TRUE(delta.Apply(kind, coded, got)) << KindName(kind);
          ASSERT_EQ(got, words.next)
              << KindName(kind) << " x " << word_count << ", " << density;
        }
      }
    }
  }
}

// Returns the least size of the changes, given how often words of each exponent
// change and by how much.
double EntropyBytes(const WordPair& words) {
  std::map<int, std::map<int, double>> counts;
  for (size_t i = 0; i + 1 < words.base.size(); i += 2) {
    const auto base = LoadLittle<uint16_t>(&words.base[i]);
    const auto next = LoadLittle<uint16_t>(&words.next[i]);
    counts[base >> 7 & 0xff][static_cast<int16_t>(next - base)] += 1;
  }
  double bits = 0;
  for (const auto& [exponent, of] : counts) {
    double sum = 0;
    for (const auto& [difference, count] : of) sum += count;
    for (const auto& [difference, count] : of) {
      bits += count * std::log2(sum / count);
    }
  }
  return bits / 8;
}

TEST(SparseDelta, TakesLittleMoreThanTheEntropyGivenTheExponent) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (const float rate : {5e-7F, 1e-6F, 3e-6F, 8e-6F}) {
    WordPair words;
    for (size_t i = 0; i < 500000; ++i) {
      const float weight = 0.02F * normal(random);
      const float step =
          rate * std::min(1.0F, std::max(-1.0F, 0.5F * normal(random)));
      for (auto [value, text] : {std::pair(weight, &words.base),
                                 std::pair(weight - step, &words.next)}) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1);
        text->push_back(static_cast<char>(bits >> 16));
        text->push_back(static_cast<char>(bits >> 24));
      }
    }
    SparseDelta delta;
    const WordKind kind = WordKindOf(DType::kBfloat16);
    delta.CountChanges(kind, words.base, words.next);
    const size_t byte_count = delta.Encode(kind, words.base, words.next).size();
    EXPECT_LT(static_cast<double>(byte_count), 1.08 * EntropyBytes(words) + 500)
        << rate;
  }
}

TEST(SparseDelta, DamagedBytesNeverLeadOutOfTheWords) {
  std::mt19937_64 random(7);
  SparseDelta delta;
  for (const WordKind& kind : kKinds) {
    for (const double density : {0.01, 0.3}) {
      const WordPair words = RandomWords(kind, 2000, density, 3, random);
      delta.CountChanges(kind, words.base, words.next);
      const std::string coded = delta.Encode(kind, words.base, words.next);
      for (int trial = 0; trial < 300; ++trial) {
        std::string bad = coded;
        if (trial % 3 == 0) {
          bad.resize(random() % bad.size());
        } else {
          bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
        }
        std::string got = words.base;
        // A flip in a difference goes unnoticed here; ChunkHash notices it.
        if (delta.Apply(kind, bad, got) && trial % 3 == 0) {
          EXPECT_EQ(bad, coded) << KindName(kind);
        }
      }
    }
  }
}

TEST(Rans, RunsComeBackInOrderWithAnyFrequencies) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::string> runs(1 + random() % 5);
    std::vector<Frequencies> frequencies;
    for (std::string& run : runs) {
      const uint64_t symbols = 1 + random() % 256;
      run.resize(1 + random() % 3000);
      for (char& symbol : run) {
        symbol = static_cast<char>(random() % symbols % (1 + random() % 256));
      }
      frequencies.push_back(FrequenciesOf(CountBytes(run)));
    }
    RansEncoder encoder;
    for (size_t i = runs.size(); i-- > 0;) {
      encoder.EncodeRun(runs[i], frequencies[i]);
    }
    const std::string stream = encoder.Finish();
    BitWriter bits;
    for (const Frequencies& one : frequencies) WriteFrequencies(one, bits);
    const std::string heads = bits.Finish();
    BitReader read(heads);
    RansDecoder decoder;
    ASSERT_TRUE(decoder.Open(stream));
    for (size_t i = 0; i < runs.size(); ++i) {
      Frequencies got;
      ASSERT_TRUE(ReadFrequencies(read, got));
      ASSERT_EQ(got, frequencies[i]);
      std::vector<uint8_t> symbols(runs[i].size());
      ASSERT_TRUE(decoder.DecodeRun(got, symbols));
      ASSERT_EQ(std::string(symbols.begin(), symbols.end()), runs[i]);
    }
    EXPECT_TRUE(decoder.IsAtEnd());
  }
}

TEST(Buckets, HoldEveryNumberInTheirOrder) {
  std::mt19937_64 random(13);
  int last = -1;
  uint64_t last_end = 0;
  for (int symbol = 0; symbol < kSymbolCount; ++symbol) {
    const auto byte = static_cast<uint8_t>(symbol);
    EXPECT_EQ(BucketStart(byte), last_end);
    last_end = BucketStart(byte) + (uint64_t{1} << BucketBitCount(byte));
    EXPECT_EQ(BucketOf(BucketStart(byte)).symbol, symbol);
    EXPECT_EQ(BucketOf(last_end - 1).symbol, symbol);
    EXPECT_GT(symbol, last);
    last = symbol;
  }
  EXPECT_EQ(last_end, 0U);  // 2^64
}

}  // namespace
}  // namespace holdfast
