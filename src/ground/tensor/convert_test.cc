// Compares ConvertStrided with TensorStore 0.1.86, bit for bit except for the
// unused bits of int2 and int4: see tests/golden/tensor/make_casts.py for the
// pairs and patterns. NaNs are compared bit for bit as well: sign and payload
// turned out to be deterministic in every pair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

struct GoldenSource {
  DType dtype = DType::kBool;
  int64_t count = 0;
  std::string elements;
  std::map<DType, std::string> expected;  // by target dtype
};

// Reads the golden file; a broken file fails the test with an exception.
class GoldenReader {
 public:
  explicit GoldenReader(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string Take(size_t byte_count) {
    std::string part = bytes_.substr(position_, byte_count);
    if (part.size() != byte_count) throw std::out_of_range("golden file");
    position_ += byte_count;
    return part;
  }
  uint32_t TakeU32() {
    uint32_t value = 0;
    std::memcpy(&value, Take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  DType TakeDType() {
    const size_t length = static_cast<unsigned char>(Take(1)[0]);
    return DTypeFromName(Take(length)).value();
  }

 private:
  std::string bytes_;
  size_t position_ = 0;
};

std::vector<GoldenSource> ReadGolden() {
  std::ifstream file(HOLDFAST_SOURCE_DIR "/tests/golden/tensor/casts.bin",
                     std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  GoldenReader reader(text.str());
  EXPECT_EQ(reader.Take(8), "HFCASTS1");
  std::vector<GoldenSource> sources(reader.TakeU32());
  for (GoldenSource& source : sources) {
    source.dtype = reader.TakeDType();
    source.count = reader.TakeU32();
    const auto count = static_cast<size_t>(source.count);
    source.elements = reader.Take(count * DTypeBytes(source.dtype));
    const uint32_t target_count = reader.TakeU32();
    for (uint32_t i = 0; i < target_count; ++i) {
      const DType target = reader.TakeDType();
      source.expected[target] = reader.Take(count * DTypeBytes(target));
    }
  }
  return sources;
}

std::string Hex(const std::string& bytes, size_t index, size_t element_bytes) {
  std::string text = "0x";
  for (size_t i = element_bytes; i-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x",
                  static_cast<unsigned char>(bytes[index * element_bytes + i]));
    text += digits;
  }
  return text;
}

// Describes the first element that differs; "" if none does.
std::string FirstDifference(const GoldenSource& source, DType target,
                            const std::string& got, const std::string& want) {
  const size_t bytes = DTypeBytes(target);
  for (size_t i = 0; i < static_cast<size_t>(source.count); ++i) {
    if (got.compare(i * bytes, bytes, want, i * bytes, bytes) == 0) continue;
    return Hex(source.elements, i, DTypeBytes(source.dtype)) + ": got " +
           Hex(got, i, bytes) + ", want " + Hex(want, i, bytes);
  }
  return "";
}

std::string ConvertContiguous(const GoldenSource& source, DType target) {
  const auto source_bytes = static_cast<int64_t>(DTypeBytes(source.dtype));
  const auto target_bytes = static_cast<int64_t>(DTypeBytes(target));
  std::string got(source.count * target_bytes, '?');
  ConvertStrided(
      {source.dtype, source.elements.data(), {source.count}, {source_bytes}},
      {target, got.data(), {source.count}, {target_bytes}});
  return got;
}

// Reads the source backwards and writes into every third (unaligned) position.
std::string ConvertApart(const GoldenSource& source, DType target) {
  const auto source_bytes = static_cast<int64_t>(DTypeBytes(source.dtype));
  const auto target_bytes = static_cast<int64_t>(DTypeBytes(target));
  const int64_t stride = 3 * target_bytes;
  std::string apart(source.count * stride + 1, '?');
  ConvertStrided({source.dtype,
                  source.elements.data() + (source.count - 1) * source_bytes,
                  {source.count},
                  {-source_bytes}},
                 {target, apart.data() + 1, {source.count}, {stride}});
  std::string got;
  for (int64_t i = source.count; i-- > 0;) {
    got.append(apart, 1 + i * stride, target_bytes);
  }
  return got;
}

TEST(ConvertTest, EveryPairAsTensorStore) {
  int pair_count = 0;
  for (const GoldenSource& source : ReadGolden()) {
    for (const auto& [target, want] : source.expected) {
      SCOPED_TRACE(std::string(DTypeName(source.dtype)) + " to " +
                   std::string(DTypeName(target)));
      EXPECT_EQ("", FirstDifference(source, target,
                                    ConvertContiguous(source, target), want));
      EXPECT_EQ("", FirstDifference(source, target,
                                    ConvertApart(source, target), want));
      ++pair_count;
    }
  }
  // Between uint2, uint4 and some narrow types there is no reference to compare
  // with.
  EXPECT_EQ(pair_count, kDTypeCount * kDTypeCount - 13);
}

// Returns the bytes of `count` values of type Value.
template <typename Value>
std::string BytesOf(const std::vector<Value>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(Value));
}

std::string Convert(DType from, const std::string& elements, DType to) {
  GoldenSource source;
  source.dtype = from;
  source.elements = elements;
  source.count = static_cast<int64_t>(elements.size() / DTypeBytes(from));
  return ConvertContiguous(source, to);
}

// TensorStore has no uint2 and uint4; numpy has no cast between sub-byte types.
TEST(ConvertTest, PairsWithoutAModel) {
  EXPECT_EQ(Convert(DType::kInt4, "\x07\x0f\x0a", DType::kUint2),
            "\x03\x03\x02");
  EXPECT_EQ(Convert(DType::kUint4, "\x01\x0f\x08", DType::kInt4),
            "\x01\x0f\x08");
  EXPECT_EQ(Convert(DType::kInt2, "\x03\x02\x01", DType::kUint4),
            "\x0f\x0e\x01");
  EXPECT_EQ(Convert(DType::kUint4, std::string("\x01\x00\x0f", 3),
                    DType::kFloat8E8m0fnu),
            std::string("\x3f\x00\x43", 3));
}

// TensorStore's vector loops give results that depend on the position in the
// array. The low bits are wanted here.
TEST(ConvertTest, FloatOutOfRangeOfUint32) {
  const std::vector<double> values = {-1, 4294967296.0 + 7, -4294967296.0 - 3,
                                      1e30};
  const std::vector<uint32_t> want = {0xffffffff, 7, 0xfffffffd, 0};
  EXPECT_EQ(Convert(DType::kFloat64, BytesOf(values), DType::kUint32),
            BytesOf(want));
}

TEST(ConvertTest, RunsLongerThanABlock) {
  std::vector<int16_t> values(5000);
  std::vector<uint8_t> want(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    // Not periodic with any block size.
    values[i] = static_cast<int16_t>(i * i / 7);
    want[i] = static_cast<uint8_t>(i * i / 7);
  }
  EXPECT_EQ(Convert(DType::kInt16, BytesOf(values), DType::kUint8),
            BytesOf(want));
}

TEST(ConvertTest, ShapesAndStrides) {
  // A transposed source with a repeated dimension into a backwards target.
  const float source[] = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> target(12, -1);
  ConvertStrided({DType::kFloat32,
                  reinterpret_cast<const char*>(source),
                  {3, 2, 2},
                  {4, 0, 12}},
                 {DType::kInt32,
                  reinterpret_cast<char*>(&target[8]),
                  {3, 2, 2},
                  {-16, 8, 4}});
  EXPECT_THAT(target, testing::ElementsAre(3, 6, 3, 6, 2, 5, 2, 5, 1, 4, 1, 4));
}

TEST(ConvertTest, EmptyAndScalar) {
  ConvertStrided({DType::kFloat32, nullptr, {3, 0}, {0, 4}},
                 {DType::kComplex64, nullptr, {3, 0}, {0, 8}});
  const double value = 2.5;
  float narrow = 0;
  ConvertStrided({DType::kFloat64, reinterpret_cast<const char*>(&value)},
                 {DType::kFloat32, reinterpret_cast<char*>(&narrow)});
  EXPECT_EQ(narrow, 2.5f);
}

}  // namespace
}  // namespace holdfast
