#include "formats/device/device_planes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>

#include "formats/codec/blosc_header.h"
#include "formats/codec/codec_test_util.h"
#include "formats/codec/zstd_frame.h"
#include "formats/device/device_test_util.h"

namespace holdfast {
namespace {

std::shared_ptr<const BytesCodec> Planes(size_t item_bytes) {
  return MustMake(BloscParams{"zstd", 1, 1, 0, item_bytes, true}, item_bytes);
}

// Decodes one container on the device, or returns nullopt.
std::optional<std::string> OnDevice(TestDevice& device,
                                    const std::string& container,
                                    size_t decoded_bytes,
                                    bool bytes_are_known = false,
                                    size_t elements_offset = 0) {
  DevicePlanesPlan plan(bytes_are_known);
  if (!plan.Add(container, 0, decoded_bytes, 0)) return std::nullopt;
  std::string elements = device.Decode(plan, container, elements_offset);
  if (!plan.IsDecoded(0, device.results())) return std::nullopt;
  return elements;
}

struct Sample {
  const char* name;
  std::string bytes;
};

std::vector<Sample> Samples(size_t byte_count) {
  std::string skewed = RandomBytes(byte_count, 8);
  for (char& byte : skewed) {
    byte = static_cast<char>(static_cast<uint8_t>(byte) % 16 *
                             (static_cast<uint8_t>(byte) / 128));
  }
  return {{"bf16", NormalBfloat16s(byte_count, 1)},
          {"f32", NormalFloats(byte_count, 2)},
          {"noise", RandomBytes(byte_count, 3)},
          {"zeros", std::string(byte_count, '\0')},
          {"ones", std::string(byte_count, '\xFF')},
          {"skewed", skewed}};
}

void ExpectDecodes(TestDevice& device, const Sample& sample,
                   size_t item_bytes) {
  const size_t byte_count = sample.bytes.size();
  SCOPED_TRACE(std::string(sample.name) + " " + std::to_string(byte_count) +
               " items of " + std::to_string(item_bytes));
  const auto decoded =
      OnDevice(device, MustEncode(*Planes(item_bytes), sample.bytes),
               byte_count, false, byte_count % 3);
  ASSERT_TRUE(decoded.has_value());
  ASSERT_TRUE(*decoded == sample.bytes);
}

TEST(DevicePlanesTest, EqualsTheContentForEachItemAndSize) {
  TestDevice device;
  for (const size_t item_bytes : {1, 2, 3, 4, 8, 16, 255}) {
    for (const size_t byte_count :
         {size_t{0}, size_t{1}, item_bytes - 1, item_bytes, size_t{255},
          size_t{1000}, 300 * item_bytes, 4096 * item_bytes + 3}) {
      for (const Sample& sample : Samples(byte_count)) {
        ExpectDecodes(device, sample, item_bytes);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(DevicePlanesTest, EqualsTheContentAroundTheEdgesOfBlocks) {
  TestDevice device;
  for (const size_t item_bytes : {1, 2, 4, 8, 16}) {
    const size_t block_bytes = kZstdBlockBytesMax * item_bytes;
    const std::string bytes = item_bytes == 2
                                  ? NormalBfloat16s(2 * block_bytes, 1)
                                  : NormalFloats(block_bytes + 4000, 1);
    for (const size_t byte_count :
         {block_bytes - 1, block_bytes, block_bytes + 1,
          block_bytes + 40 * item_bytes}) {
      ExpectDecodes(device, {"normal", bytes.substr(0, byte_count)},
                    item_bytes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(DevicePlanesTest, StreamsOfAnyLengthOfCodes) {
  TestDevice device;
  const auto codec = Planes(1);
  std::mt19937 random(5);
  for (const double share : {0.5, 0.6, 0.8, 0.95}) {
    std::geometric_distribution<int> values(share);
    std::string bytes(200000, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(std::min(values(random), 255));
    }
    const auto decoded =
        OnDevice(device, MustEncode(*codec, bytes), bytes.size());
    ASSERT_TRUE(decoded.has_value()) << share;
    ASSERT_TRUE(*decoded == bytes) << share;
  }
}

TEST(DevicePlanesTest, StreamsThatDoNotFallIntoStep) {
  TestDevice device;
  std::mt19937 random(6);
  // 7 values whose codes have 3 bits, and 2 whose codes have 4, of which only
  // the first stream has some. So the segments of the others wait for each
  // other.
  std::string bytes(100000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % 7);
  bytes[5] = 7;
  bytes[6] = 8;
  ExpectDecodes(device, {"3 or 4 bits", bytes}, 1);
  // 3 bits each: every segment begins at a multiple of 3.
  for (char& byte : bytes) byte = static_cast<char>(random() % 8);
  ExpectDecodes(device, {"3 bits", bytes}, 1);
}

TEST(DevicePlanesTest, ManyContainersAtOnce) {
  TestDevice device;
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  std::string encoded;
  std::string content;
  size_t added_count = 0;
  for (const size_t item_bytes : {2, 4, 1, 8}) {
    for (const Sample& sample : Samples(30000 * item_bytes + 3)) {
      const std::string container =
          MustEncode(*Planes(item_bytes), sample.bytes);
      ASSERT_TRUE(plan.Add(container, encoded.size(), sample.bytes.size(),
                           content.size()));
      encoded += container;
      content += sample.bytes;
      ++added_count;
      // A container that is not added changes nothing.
      EXPECT_FALSE(plan.Add(container.substr(1), 0, sample.bytes.size(), 0));
      EXPECT_FALSE(plan.Add(container, 0, sample.bytes.size() + 1, 0));
    }
  }
  EXPECT_EQ(plan.encoded_bytes(), encoded.size());
  EXPECT_TRUE(device.Decode(plan, encoded) == content);
  for (size_t i = 0; i < added_count; ++i) {
    EXPECT_TRUE(plan.IsDecoded(i, device.results())) << i;
  }
}

TEST(DevicePlanesTest, DamageOfOneContainerIsItsOwn) {
  TestDevice device;
  const std::string bytes = NormalBfloat16s(50000, 1);
  const std::string container = MustEncode(*Planes(2), bytes);
  std::string damaged = container;
  damaged[damaged.size() - 50] ^= 1;  // in the last stream
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  ASSERT_TRUE(plan.Add(container, 0, bytes.size(), 0));
  std::string encoded = container;
  ASSERT_TRUE(plan.Add(container, encoded.size(), bytes.size(), bytes.size()));
  encoded += damaged;  // after the plan was made
  ASSERT_TRUE(
      plan.Add(container, encoded.size(), bytes.size(), 2 * bytes.size()));
  encoded += container;
  (void)device.Decode(plan, encoded);
  EXPECT_TRUE(plan.IsDecoded(0, device.results()));
  EXPECT_FALSE(plan.IsDecoded(1, device.results()));
  EXPECT_TRUE(plan.IsDecoded(2, device.results()));
}

TEST(DevicePlanesTest, ChecksumsAreComparedUnlessTheBytesAreKnown) {
  TestDevice device;
  for (const size_t byte_count : {3, 31, 32, 100, 65536, 300000}) {
    const std::string bytes = RandomBytes(byte_count, 4);
    std::string container = MustEncode(*Planes(2), bytes);
    container.back() ^= 1;  // of the last frame's checksum
    EXPECT_FALSE(OnDevice(device, container, byte_count));
    const auto known = OnDevice(device, container, byte_count, true);
    ASSERT_TRUE(known.has_value());
    EXPECT_TRUE(*known == bytes);
  }
}

TEST(DevicePlanesTest, OtherContainersAreForTheHost) {
  const std::string bytes = PatternBytes(1 << 20, 1);
  const auto is_for_device = [&](const BloscParams& params) {
    DevicePlanesPlan plan(/*bytes_are_known=*/false);
    return plan.Add(MustEncode(*MustMake(params, 2), bytes), 0, bytes.size(),
                    0);
  };
  // libzstd has found strings.
  EXPECT_FALSE(is_for_device({"zstd", 1, 1, 0, 2, true}));
  EXPECT_FALSE(is_for_device({"zstd", 5, 1, 0, 2}));
  EXPECT_FALSE(is_for_device({"lz4", 5, 1, 0, 2}));
  EXPECT_FALSE(is_for_device({"lz4", 5, 2, 0, 1}));
  EXPECT_FALSE(is_for_device({"blosclz", 5, 0, 0, 1}));
}

// Returns a container of one block of items of one byte, which has this frame.
std::string ContainerOf(std::string_view frame, size_t decoded_bytes) {
  BloscHeader header;
  header.compressor = BloscCompressor::kZstd;
  header.flags = kBloscByteShuffle | kBloscOneStream;
  header.decoded_bytes = decoded_bytes;
  header.block_bytes = decoded_bytes;
  const size_t frame_at = kBloscHeaderBytes + kBloscWordBytes;
  std::string container(frame_at + kBloscWordBytes, '\0');
  StoreBloscWord(frame_at, container.data() + kBloscHeaderBytes);
  StoreBloscWord(frame.size(), container.data() + frame_at);
  container += frame;
  WriteBloscHeader(header, container.size(), container.data());
  return container;
}

std::string FrameHeader(size_t decoded_bytes) {
  std::string header(kZstdHeaderBytesMax, '\0');
  header.resize(WriteZstdFrameHeader(decoded_bytes, false, header.data()));
  return header;
}

TEST(DevicePlanesTest, BlocksThatRepeatATree) {
  TestDevice device;
  std::mt19937 random(9);
  std::string bytes(300000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % 5);
  std::string frame(StoredZstdFrameBytes(bytes.size(), true), '\0');
  frame.resize(WriteLiteralFrame(bytes, true, frame.data()));
  LiteralsReader reader(
      std::string_view(frame).substr(InspectZstdHeader(frame)->header_bytes));
  LiteralBlock block;
  ASSERT_TRUE(reader.Next(block) && !block.repeats_tree);
  const size_t first_bytes = reader.rest().data() - frame.data();
  ASSERT_TRUE(reader.Next(block) && block.repeats_tree);
  const auto decoded =
      OnDevice(device, ContainerOf(frame, bytes.size()), bytes.size());
  ASSERT_TRUE(decoded.has_value());
  EXPECT_TRUE(*decoded == bytes);

  // The same without a checksum, and without the block that has the tree.
  const size_t rest_bytes = bytes.size() - kZstdBlockBytesMax;
  const std::string container =
      ContainerOf(FrameHeader(rest_bytes) +
                      frame.substr(first_bytes, frame.size() - first_bytes -
                                                    kZstdChecksumBytes),
                  rest_bytes);
  EXPECT_FALSE(TryDecode(*Planes(1), container, rest_bytes).ok());
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  EXPECT_FALSE(plan.Add(container, 0, rest_bytes, 0));
}

std::string RunBlock(char byte, size_t byte_count, bool is_last) {
  std::string block(kZstdBlockHeaderBytes, '\0');
  WriteZstdBlockHeader(ZstdBlockType::kRun, byte_count, is_last, block.data());
  return block + byte;
}

TEST(DevicePlanesTest, AFrameAsLargeAsItsContentIsTheContent) {
  const std::string frame = FrameHeader(10) + RunBlock('x', 10, true);
  const std::string container = ContainerOf(frame, 10);
  EXPECT_EQ(TryDecode(*Planes(1), container, 10).value(), frame);
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  EXPECT_FALSE(plan.Add(container, 0, 10, 0));
}

TEST(DevicePlanesTest, BlocksBeyondTheWindowAreForTheHost) {
  std::string header = FrameHeader(2000);
  header[4] = 1 << 6;  // no single segment: a byte for the window follows
  const auto is_for_device = [&](char window) {
    const std::string container =
        ContainerOf(header.substr(0, 5) + window + header.substr(5) +
                        RunBlock('x', 2000, true),
                    2000);
    DevicePlanesPlan plan(/*bytes_are_known=*/false);
    return plan.Add(container, 0, 2000, 0);
  };
  EXPECT_FALSE(is_for_device(0));  // 1 KiB
  EXPECT_TRUE(is_for_device(1 << 3));
}

TEST(DevicePlanesTest, BytesAfterTheBlocksAreRefused) {
  const std::string frame = FrameHeader(100) + RunBlock('x', 100, true);
  for (const std::string rest : {"", "y"}) {
    const std::string container = ContainerOf(frame + rest, 100);
    DevicePlanesPlan plan(/*bytes_are_known=*/false);
    EXPECT_EQ(plan.Add(container, 0, 100, 0), rest.empty());
    EXPECT_EQ(TryDecode(*Planes(1), container, 100).ok(), rest.empty());
  }
}

// A tree of two codes of one bit, for the bytes 0 and 1: one weight of 1 is
// written.
constexpr std::string_view kBitTree = "\x80\x10";

// Returns a container of one block that is coded with kBitTree. A stream has a
// bit for each byte, from the highest one on, after the bit that marks the end.
std::string CodedContainer(std::string_view streams, bool has_four_streams,
                           size_t decoded_bytes) {
  const uint64_t coded_bytes = kBitTree.size() + streams.size();
  const uint64_t literals = 2 | uint64_t{has_four_streams} << 2 |
                            uint64_t{decoded_bytes} << 4 | coded_bytes << 14;
  std::string content(3, '\0');
  std::memcpy(content.data(), &literals, content.size());
  content.append(kBitTree).append(streams).push_back('\0');
  std::string block(kZstdBlockHeaderBytes, '\0');
  WriteZstdBlockHeader(ZstdBlockType::kCompressed, content.size(), true,
                       block.data());
  return ContainerOf(FrameHeader(decoded_bytes) + block + content,
                     decoded_bytes);
}

TEST(DevicePlanesTest, StreamsByHand) {
  using std::string_literals::operator""s;
  struct Case {
    const char* name;
    std::string streams;
    bool has_four_streams;
    size_t decoded_bytes;
    std::optional<std::string> want;
  };
  TestDevice device;
  for (const Case& streams :
       {Case{"one", "\x69\x01"s, false, 8, "\0\1\1\0\1\0\0\1"s},
        Case{"no mark", "\x69\x00"s, false, 7, std::nullopt},
        Case{"too short", "\x69\x01"s, false, 9, std::nullopt},
        Case{"too long", "\x69\x01"s, false, 7, std::nullopt},
        Case{"empty", ""s, false, 1, std::nullopt},
        Case{"four", "\1\0\1\0\1\0\x06\x05\x04\x03"s, true, 7,
             "\1\0\0\1\0\0\1"s},
        Case{"the fourth begins after the end", "\1\0\1\0\1\0\x06\x05\x02\x01"s,
             true, 5, std::nullopt},
        Case{"the jump table reaches beyond the end",
             "\1\0\1\0\xff\xff\x06\x05\x04\x03"s, true, 7, std::nullopt},
        Case{"no jump table", "\1\0\1\0"s, true, 7, std::nullopt}}) {
    SCOPED_TRACE(streams.name);
    const std::string container = CodedContainer(
        streams.streams, streams.has_four_streams, streams.decoded_bytes);
    const auto on_host =
        TryDecode(*Planes(1), container, streams.decoded_bytes);
    EXPECT_EQ(on_host.ok(), streams.want.has_value());
    EXPECT_EQ(OnDevice(device, container, streams.decoded_bytes), streams.want);
  }
}

TEST(DevicePlanesTest, MoreBlocksThanTheContainerHasOffsetsFor) {
  std::string container = ContainerOf(FrameHeader(400), 400);
  StoreBloscWord(1, container.data() + 8);  // 400 blocks of one byte
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  container.resize(kBloscHeaderBytes);
  StoreBloscWord(container.size(), container.data() + 12);
  container.shrink_to_fit();
  EXPECT_FALSE(plan.Add(container, 0, 400, 0));
}

TEST(DevicePlanesTest, TablesStaySmallWhateverAContainerClaims) {
  const size_t decoded_bytes = 1 << 20;
  const size_t piece_count = 10000;
  std::string frame = FrameHeader(decoded_bytes);
  for (size_t i = 0; i < piece_count; ++i) {
    frame += RunBlock('x', decoded_bytes / piece_count, false);
  }
  frame += RunBlock('x', decoded_bytes % piece_count, true);
  const std::string container = ContainerOf(frame, decoded_bytes);
  EXPECT_TRUE(TryDecode(*Planes(1), container, decoded_bytes).ok());
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  EXPECT_FALSE(plan.Add(container, 0, decoded_bytes, 0));
  EXPECT_EQ(plan.table_bytes(), 0);
}

// Damage is noticed, or changes nothing.
TEST(DevicePlanesTest, AgreesWithTheHostOnDamagedContainers) {
  TestDevice device;
  std::mt19937 random(7);
  size_t decoded_count = 0;
  size_t damaged_count = 0;
  for (const size_t item_bytes : {1, 2, 4}) {
    const auto codec = Planes(item_bytes);
    for (const Sample& sample : Samples(3000)) {
      const std::string encoded = MustEncode(*codec, sample.bytes);
      for (int i = 0; i < 200; ++i) {
        std::string damaged = encoded;
        for (int k = 0; k < 1 + i % 3; ++k) {
          const size_t range = i % 2 == 0 ? damaged.size() : 60;
          damaged[random() % std::min(range, damaged.size())] ^=
              static_cast<char>(1 << random() % 8);
        }
        if (i % 10 == 0) {
          damaged.resize(random() % damaged.size());
          if (damaged.size() >= kBloscHeaderBytes) {
            StoreBloscWord(damaged.size(), damaged.data() + 12);
          }
        }
        const bool is_known = i % 4 == 0;
        const auto decoded =
            OnDevice(device, damaged, sample.bytes.size(), is_known);
        if (!decoded) {
          ++damaged_count;
          continue;
        }
        ++decoded_count;
        CodecContext context;
        context.set_bytes_are_known(is_known);
        std::string want(sample.bytes.size(), '\0');
        const Status status =
            codec->Decode(damaged, {want.data(), want.size()}, context);
        if (item_bytes == 1 && is_known) continue;  // checked by libzstd
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_TRUE(*decoded == want);
      }
    }
  }
  EXPECT_GT(decoded_count, 100);
  EXPECT_GT(damaged_count, 1000);
}

}  // namespace
}  // namespace holdfast
