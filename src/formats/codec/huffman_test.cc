#include "formats/codec/huffman.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <cmath>
#include <random>
#include <string>

namespace holdfast {
namespace {

// Returns bytes, starting with `first`, each of which is less frequent than the
// one before by the factor `ratio`.
std::string Geometric(size_t byte_count, double ratio, int first, int distinct,
                      unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> weights;
  for (int i = 0; i < distinct; ++i) weights.push_back(std::pow(ratio, i));
  std::discrete_distribution<int> byte(weights.begin(), weights.end());
  std::string text(byte_count, '\0');
  for (char& c : text) c = static_cast<char>((first + byte(random)) & 0xFF);
  return text;
}

std::string EncodedBy(const HuffmanCode& code, const std::string& in) {
  std::string out(*code.BitsOf(CountBytes(in)) / 8 + kHuffmanSpareBytes, '\0');
  out.resize(code.Encode(in, out.data()));
  return out;
}

TEST(Huffman, CountsEveryByte) {
  const std::string text = "abcabcabcab\xFF";
  const ByteCounts counts = CountBytes(text);
  EXPECT_EQ(counts['a'], 4u);
  EXPECT_EQ(counts['b'], 4u);
  EXPECT_EQ(counts['c'], 3u);
  EXPECT_EQ(counts[0xFF], 1u);
}

TEST(Huffman, DecodesWhatItEncodesNearTheEntropy) {
  HuffmanTables tables;
  unsigned seed = 0;
  for (const size_t byte_count : {64, 257, 1000, 4096, 65536, 131072}) {
    for (const double ratio : {0.2, 0.5, 0.9, 0.99, 1.0}) {
      for (const int distinct : {2, 3, 17, 40, 129, 250}) {
        const std::string in =
            Geometric(byte_count, ratio, 0x30, distinct, ++seed);
        const ByteCounts counts = CountBytes(in);
        const auto code = HuffmanCode::Of(counts);
        if (!code) continue;  // all alike, or all equally frequent
        const std::string encoded = EncodedBy(*code, in);
        const HuffmanTable* const table = tables.Find(code->description());
        ASSERT_NE(table, nullptr)
            << byte_count << " " << ratio << " " << distinct;
        std::string out(in.size(), '?');
        ASSERT_TRUE(table->Decode(encoded, true, out));
        ASSERT_EQ(out, in);
        // Huffman codes cost at most one bit more than the entropy, and a
        // little more when limited to 11 bits.
        const double bits = static_cast<double>(*code->BitsOf(counts));
        EXPECT_GE(bits, EntropyBits(counts) - 1e-6);
        EXPECT_LE(bits, EntropyBits(counts) + 1.05 * byte_count);
      }
    }
  }
}

TEST(Huffman, CodesAreNearTheBestOnNormals) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02f);
  std::string upper(131072, '\0');
  for (char& c : upper) {
    const float value = normal(random);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    c = static_cast<char>(bits >> 24);
  }
  const ByteCounts counts = CountBytes(upper);
  const auto code = HuffmanCode::Of(counts);
  ASSERT_TRUE(code.has_value());
  EXPECT_LT(*code->BitsOf(counts), 1.02 * EntropyBits(counts));
  EXPECT_LT(code->description().size(), 40u);
}

TEST(Huffman, LimitsTheLengthOfCodes) {
  // Fibonacci numbers make the deepest possible trees.
  ByteCounts counts{};
  uint32_t a = 1;
  uint32_t b = 1;
  for (int byte = 0; byte < 30; ++byte) {
    counts[byte] = a;
    const uint32_t next = a + b;
    a = b;
    b = next;
  }
  const auto code = HuffmanCode::Of(counts);
  ASSERT_TRUE(code.has_value());
  const auto weights = ParseHuffmanWeights(code->description());
  ASSERT_TRUE(weights.has_value());
  EXPECT_EQ(weights->bit_count_max, kHuffmanBitsMax);
  EXPECT_LT(*code->BitsOf(counts), 1.05 * EntropyBits(counts));
}

TEST(Huffman, ReusesATableOnlyForBytesThatHaveCodes) {
  const auto code = HuffmanCode::Of(CountBytes("aaaabbc"));
  ASSERT_TRUE(code.has_value());
  EXPECT_TRUE(code->BitsOf(CountBytes("abc")).has_value());
  EXPECT_FALSE(code->BitsOf(CountBytes("abd")).has_value());
}

TEST(Huffman, RefusesStreamsThatAreCutOrChanged) {
  const std::string in = Geometric(5000, 0.6, 0x60, 20, 3);
  const auto code = HuffmanCode::Of(CountBytes(in));
  const std::string encoded = EncodedBy(*code, in);
  HuffmanTables tables;
  const HuffmanTable* const table = tables.Find(code->description());
  ASSERT_NE(table, nullptr);
  std::string out(in.size(), '?');
  for (size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_FALSE(table->Decode(encoded.substr(0, size), true, out)) << size;
  }
  std::string shorter(in.size() - 1, '?');
  EXPECT_FALSE(table->Decode(encoded, true, shorter));
  std::string longer(in.size() + 1, '?');
  EXPECT_FALSE(table->Decode(encoded, true, longer));
}

TEST(Huffman, RandomBytesAreNeverReadOutOfBounds) {
  std::mt19937 random(11);
  HuffmanTables tables;
  int table_count = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text(1 + random() % 60, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const auto size = HuffmanDescriptionBytes(text);
    if (!size) continue;
    const HuffmanTable* const table = tables.Find(text.substr(0, *size));
    if (table == nullptr) continue;
    ++table_count;
    std::string out(random() % 200, '?');
    (void)table->Decode(text.substr(*size), i % 2 == 0, out);
  }
  EXPECT_GT(table_count, 0);
}

}  // namespace
}  // namespace holdfast
