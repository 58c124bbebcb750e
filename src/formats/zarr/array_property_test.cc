// Random arrays, written and read by random boxes, compared with a plain array
// in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "formats/zarr/array_test_util.h"
#include "formats/zarr/chunk_codec.h"
#include "ground/tensor/copy.h"
#include "stores/storage/memory_store.h"

namespace holdfast::zarr {
namespace {

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Flip() { return Draw(0, 1) == 1; }

  std::vector<int> Permutation(size_t rank) {
    std::vector<int> order(rank);
    for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  // Returns random elements, often equal to each other, so that fill values
  // occur.
  std::string Elements(DType dtype, int64_t count) {
    std::string bytes(count * DTypeBytes(dtype), '\0');
    const bool sparse = Flip();
    for (char& byte : bytes) {
      byte = sparse ? 0 : static_cast<char>(Draw(0, 255));
      if (dtype == DType::kBool) byte &= 1;
    }
    if (DTypeBits(dtype) < 8) {
      ClearUnusedBits(dtype, bytes.data(), bytes.size());
    }
    return bytes;
  }

  Box BoxIn(const Shape& shape) {
    Box box = BoxOf(shape);
    for (size_t i = 0; i < shape.size(); ++i) {
      box.origin[i] = Draw(0, shape[i]);
      box.shape[i] = Draw(0, shape[i] - box.origin[i]);
    }
    return box;
  }

  DType AnyDType() {
    while (true) {
      const auto dtype = static_cast<DType>(Draw(0, kDTypeCount - 1));
      if (dtype != DType::kUint2 && dtype != DType::kUint4) return dtype;
    }
  }

  std::vector<BytesCodecParams> Codecs(DType dtype, bool v3) {
    std::vector<BytesCodecParams> codecs;
    switch (Draw(0, 4)) {
      case 0:
        codecs.emplace_back(ZstdParams{.level = static_cast<int>(Draw(-3, 5))});
        break;
      case 1:
        codecs.emplace_back(GzipParams{.zlib_header = !v3 && Flip()});
        break;
      case 2:
        codecs.emplace_back(
            BloscParams{.shuffle = static_cast<int>(Draw(0, 2)),
                        .typesize = v3 ? DTypeBytes(dtype) : 0});
        break;
      default:
        break;
    }
    if (v3 && Flip()) codecs.emplace_back(Crc32cParams());
    return codecs;
  }

  ArrayMetadata Metadata() {
    ArrayMetadata metadata;
    metadata.zarr_format = Flip() ? 3 : 2;
    metadata.dtype = AnyDType();
    const size_t rank = Draw(0, 4);
    for (size_t i = 0; i < rank; ++i) {
      metadata.shape.push_back(Draw(Draw(0, 9) == 0 ? 0 : 1, 9));
      metadata.chunk_shape.push_back(Draw(1, 6));
    }
    // bfloat16 has no big-endian name in v2.
    if (DTypeBytes(metadata.dtype) > 1 && metadata.dtype != DType::kBfloat16 &&
        Flip()) {
      metadata.endian = Endian::kBig;
    }
    metadata.fill_element = Elements(metadata.dtype, 1);
    metadata.chunk_key_encoding.separator = Flip() ? '.' : '/';
    if (metadata.zarr_format == 2) {
      FinishV2(metadata);
    } else {
      FinishV3(metadata);
    }
    return metadata;
  }

 private:
  void FinishV2(ArrayMetadata& metadata) {
    metadata.order = metadata.shape.size() > 1 && Flip() ? 'F' : 'C';
    metadata.bytes_codecs = Codecs(metadata.dtype, false);
    if (Flip()) {
      metadata.fill_is_null = true;
      metadata.fill_element.assign(DTypeBytes(metadata.dtype), '\0');
    }
  }

  void FinishV3(ArrayMetadata& metadata) {
    const size_t rank = metadata.shape.size();
    metadata.chunk_key_encoding.kind =
        Flip() ? ChunkKeyEncoding::Kind::kDefault : ChunkKeyEncoding::Kind::kV2;
    if (Flip()) metadata.transposes.push_back(Permutation(rank));
    if (Draw(0, 3) == 0) metadata.transposes.push_back(Permutation(rank));
    if (Flip()) {
      metadata.bytes_codecs = Codecs(metadata.dtype, true);
      return;
    }
    ShardingParams sharding;
    sharding.chunk_shape =
        Permute(metadata.chunk_shape, ChunkPermutation(metadata));
    for (int64_t& extent : metadata.chunk_shape) extent *= Draw(1, 3);
    if (Flip()) sharding.transposes.push_back(Permutation(rank));
    sharding.endian = metadata.endian;
    metadata.endian = Endian::kLittle;
    sharding.bytes_codecs = Codecs(metadata.dtype, true);
    sharding.index_endian = Flip() ? Endian::kBig : Endian::kLittle;
    sharding.index_crc32c_count = static_cast<int>(Draw(0, 2));
    sharding.index_location =
        Flip() ? IndexLocation::kStart : IndexLocation::kEnd;
    metadata.sharding = std::move(sharding);
  }

  std::mt19937 random_;
};

// A contiguous array in the test's own memory.
struct Twin {
  DType dtype;
  Shape shape;
  std::string bytes;

  ArrayView view() {
    return {dtype, bytes.data(), shape,
            ContiguousStrides(shape, DTypeBytes(dtype))};
  }
};

Twin Filled(const ArrayMetadata& metadata) {
  Twin twin = {
      metadata.dtype, metadata.shape,
      std::string(ElementCount(metadata.shape) * DTypeBytes(metadata.dtype),
                  '\0')};
  FillStrided(twin.view(), metadata.fill_element.data());
  return twin;
}

void WriteBoth(Generator& generator, const Array& array, Twin& twin) {
  const Box box = generator.BoxIn(twin.shape);
  Twin part = {twin.dtype, box.shape,
               generator.Elements(twin.dtype, ElementCount(box.shape))};
  const Status status = array.Write(box, part.view());
  ASSERT_TRUE(status.ok()) << status.ToString();
  CopyStrided(part.view(), Subview(twin.view(), box));
}

void ReadAndCompare(Generator& generator, Store& store, const Array& array,
                    Twin& twin) {
  const Box box = generator.BoxIn(twin.shape);
  const Twin blank = {
      twin.dtype, box.shape,
      std::string(ElementCount(box.shape) * DTypeBytes(twin.dtype), '\x5a')};
  Twin read = blank;
  Twin want = blank;
  const Status status = ReadForTest(store, array, box, read.view());
  ASSERT_TRUE(status.ok()) << status.ToString();
  CopyStrided(Subview(twin.view(), box), want.view());
  ASSERT_EQ(read.bytes, want.bytes) << BoxToString(box);
}

TEST(ArrayPropertyTest, BehavesAsAnArrayInMemory) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    Generator generator(seed);
    const ArrayMetadata metadata = generator.Metadata();
    const auto text = SerializeMetadata(metadata);
    ASSERT_TRUE(text.ok()) << seed << text.status().ToString();
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + *text);
    MemoryStore store;
    ArrayOptions options;
    options.store_data_equal_to_fill_value = generator.Flip();
    auto created = Array::Create(&store, "p/", metadata, options);
    ASSERT_TRUE(created.ok()) << created.status().ToString();
    const auto opened = OpenForTest(&store, "p/", options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    EXPECT_EQ(*SerializeMetadata(opened->metadata()), *text);
    Twin twin = Filled(opened->metadata());
    for (int step = 0; step < 4; ++step) {
      ASSERT_NO_FATAL_FAILURE(WriteBoth(generator, *created, twin));
      ASSERT_NO_FATAL_FAILURE(ReadAndCompare(generator, store, *opened, twin));
    }
  }
}

// Any part of any encoded chunk decodes to the same elements.
TEST(ChunkCodecPropertyTest, PartsOfChunks) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    Generator generator(seed);
    const ArrayMetadata metadata = generator.Metadata();
    SCOPED_TRACE("seed " + std::to_string(seed) + " " +
                 *SerializeMetadata(metadata));
    const auto codec = MakeChunkCodec(metadata);
    ASSERT_TRUE(codec.ok()) << codec.status().ToString();
    Twin chunk = {metadata.dtype, metadata.chunk_shape, ""};
    for (int64_t& extent : chunk.shape) extent = generator.Draw(1, extent);
    chunk.bytes = generator.Elements(metadata.dtype, ElementCount(chunk.shape));
    CodecContext context;
    const auto encoded = (*codec)->Encode(chunk.view(), context);
    ASSERT_TRUE(encoded.ok()) << encoded.status().ToString();
    std::string bytes;
    for (std::string_view piece : encoded->pieces) bytes += piece;
    ASSERT_EQ(bytes.size(), encoded->byte_count);
    Box box = generator.BoxIn(chunk.shape);
    if (IsEmpty(box)) box = BoxOf(chunk.shape);
    Twin part = {
        metadata.dtype, box.shape,
        std::string(ElementCount(box.shape) * DTypeBytes(metadata.dtype),
                    '\x5a')};
    Twin want = part;
    const Status status =
        (*codec)->Decode(bytes, box.origin, part.view(), context);
    ASSERT_TRUE(status.ok()) << status.ToString();
    CopyStrided(Subview(chunk.view(), box), want.view());
    ASSERT_EQ(part.bytes, want.bytes);
  }
}

}  // namespace
}  // namespace holdfast::zarr
