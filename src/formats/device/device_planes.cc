#include "formats/device/device_planes.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "formats/codec/blosc_header.h"
#include "formats/codec/huffman_weights.h"
#include "formats/codec/zstd_frame.h"
#include "ground/base/coding.h"

namespace holdfast {
namespace {

constexpr uint64_t kAlignment = 16;
constexpr size_t kJumpTableBytes = 6;

// Bounds what a container of many tiny blocks makes of the tables. Planes have
// a piece for each 128 KiB, and a few for the last block's items.
constexpr uint64_t kPieceBytesMin = uint64_t{16} << 10;
constexpr uint64_t kSmallPieceCountMax = 512;
// The device numbers blocks of threads with 31 bits.
constexpr uint64_t kGridMax = std::numeric_limits<int32_t>::max();

constexpr uint64_t Aligned(uint64_t byte_count) {
  return (byte_count + kAlignment - 1) / kAlignment * kAlignment;
}

DeviceTree TreeOf(const HuffmanWeights& weights) {
  DeviceTree tree = {};
  uint16_t entry_count = 0;
  uint16_t byte_count = 0;
  for (int bits = kTreeBitsMax; bits > 0; --bits) {
    tree.entries_before[bits] = entry_count;
    tree.bytes_before[bits] = byte_count;
    const int weight = weights.bit_count_max + 1 - bits;
    for (size_t byte = 0; weight > 0 && byte < 256; ++byte) {
      if (weights.of_byte[byte] != weight) continue;
      tree.bytes[byte_count++] = static_cast<uint8_t>(byte);
      entry_count += 1u << (kTreeBitsMax - bits);
      tree.code_step = std::gcd(tree.code_step, static_cast<uint16_t>(bits));
    }
  }
  assert(entry_count == kTreeEntryCount);
  tree.entries_before[0] = entry_count;
  tree.bytes_before[0] = byte_count;
  return tree;
}

template <typename T>
uint64_t TableBytes(const std::vector<T>& table) {
  return Aligned(table.size() * sizeof(T));
}

template <typename T>
char* WriteTable(const std::vector<T>& table, char* out) {
  if (!table.empty()) {
    std::memcpy(out, table.data(), table.size() * sizeof(T));
  }
  return out + TableBytes(table);
}

}  // namespace

// Reads one container. A reader that fails has changed nothing of the plan but
// trees, which Add then removes.
class DevicePlanesPlan::Reader {
 public:
  Reader(DevicePlanesPlan& plan, std::string_view container,
         uint64_t encoded_at, uint64_t elements_at)
      : plan_(plan),
        container_(container),
        encoded_at_(encoded_at),
        elements_at_(elements_at),
        scratch_bytes_(plan.scratch_bytes_) {}

  bool Read(uint64_t decoded_bytes) {
    const auto stated_bytes = ReadBloscDecodedBytes(container_);
    if (!stated_bytes.ok() || *stated_bytes != decoded_bytes) return false;
    const auto header = ReadBloscHeader(container_);
    if (!header.ok()) return false;
    if (decoded_bytes == 0) return true;
    header_ = *header;
    piece_count_max_ = decoded_bytes / kPieceBytesMin + kSmallPieceCountMax;
    if (!IsOfPlanes() || header_.block_count() > piece_count_max_ ||
        header_.block_count() >
            (container_.size() - kBloscHeaderBytes) / kBloscWordBytes) {
      return false;
    }
    for (size_t block = 0; block < header_.block_count(); ++block) {
      if (!ReadBlock(block)) return false;
    }
    return true;
  }

  // Moves what was read to the plan.
  bool Commit(uint64_t decoded_bytes, uint64_t host_bytes_max) {
    const uint64_t item_count = header_.block_bytes / header_.item_bytes;
    const uint64_t tile_count = std::max<uint64_t>(
        plan_.tile_count_, (item_count + kTileItems - 1) / kTileItems);
    const uint64_t frame_count = plan_.frames_.size() + frames_.size();
    const uint64_t piece_count = plan_.pieces_.size() + pieces_.size();
    if (piece_count > kGridMax || frame_count * tile_count > kGridMax ||
        plan_.HostBytes(piece_count, frame_count) > host_bytes_max) {
      return false;
    }
    plan_.containers_.push_back({plan_.pieces_.size(), plan_.frames_.size()});
    plan_.pieces_.insert(plan_.pieces_.end(), pieces_.begin(), pieces_.end());
    plan_.frames_.insert(plan_.frames_.end(), frames_.begin(), frames_.end());
    plan_.scratch_bytes_ = scratch_bytes_;
    plan_.tile_count_ = static_cast<uint32_t>(tile_count);
    plan_.encoded_bytes_ =
        std::max(plan_.encoded_bytes_, encoded_at_ + container_.size());
    plan_.elements_bytes_ =
        std::max(plan_.elements_bytes_, elements_at_ + decoded_bytes);
    return true;
  }

 private:
  bool IsOfPlanes() const {
    const bool is_shuffled = header_.item_bytes > 1
                                 ? header_.shuffles_bytes()
                                 : !header_.Has(kBloscBitShuffle);
    return header_.compressor == BloscCompressor::kZstd && is_shuffled &&
           !header_.Has(kBloscStored);
  }

  // Returns where a part of the container is on the device.
  uint64_t PlaceOf(std::string_view part) const {
    return encoded_at_ + static_cast<uint64_t>(part.data() - container_.data());
  }

  bool ReadBlock(size_t block) {
    const size_t byte_count = header_.BytesOfBlock(block);
    const size_t at =
        BloscWord(container_, kBloscHeaderBytes + block * kBloscWordBytes);
    if (header_.StreamCount(byte_count) != 1 ||
        at > container_.size() - kBloscWordBytes) {
      return false;
    }
    const size_t frame_bytes = BloscWord(container_, at);
    const std::string_view rest = container_.substr(at + kBloscWordBytes);
    // A stream as large as its decoded size is not a frame.
    if (frame_bytes > rest.size() || frame_bytes == byte_count) return false;
    const std::string_view frame = rest.substr(0, frame_bytes);
    const auto info = InspectZstdHeader(frame);
    if (!info.ok() || info->content_bytes != byte_count) return false;
    DeviceFrame planes;
    planes.scratch_at = scratch_bytes_;
    planes.elements_at = elements_at_ + block * header_.block_bytes;
    planes.byte_count = static_cast<uint32_t>(byte_count);
    planes.item_bytes = static_cast<uint32_t>(header_.item_bytes);
    scratch_bytes_ += Aligned(byte_count);
    return ReadFrame(frame, *info, planes);
  }

  bool ReadFrame(std::string_view frame, const ZstdFrameInfo& info,
                 DeviceFrame& planes) {
    LiteralsReader reader(frame.substr(info.header_bytes));
    LiteralBlock block;
    uint64_t decoded_bytes = 0;
    std::optional<uint32_t> tree;  // of the last coded block
    while (!block.is_last) {
      if (!reader.Next(block) || block.decoded_bytes > info.window_bytes ||
          !ReadPiece(block, planes.scratch_at + decoded_bytes, tree)) {
        return false;
      }
      decoded_bytes += block.decoded_bytes;
    }
    const size_t rest_bytes = info.has_checksum ? kZstdChecksumBytes : 0;
    if (decoded_bytes != planes.byte_count ||
        reader.rest().size() != rest_bytes) {
      return false;
    }
    if (info.has_checksum) {
      planes.has_checksum = 1;
      planes.checksum = LoadLittle<uint32_t>(reader.rest().data());
    }
    frames_.push_back(planes);
    return true;
  }

  bool ReadPiece(const LiteralBlock& block, uint64_t scratch_at,
                 std::optional<uint32_t>& tree) {
    if (block.decoded_bytes == 0) return true;
    if (pieces_.size() >= piece_count_max_) return false;
    DevicePiece piece;
    piece.encoded_at = PlaceOf(block.data);
    piece.scratch_at = scratch_at;
    piece.decoded_bytes = static_cast<uint32_t>(block.decoded_bytes);
    piece.kind = block.kind == LiteralBlock::Kind::kRaw   ? kStoredPiece
                 : block.kind == LiteralBlock::Kind::kRun ? kRunPiece
                                                          : kCodedPiece;
    if (piece.kind == kCodedPiece && !ReadCoded(block, piece, tree)) {
      return false;
    }
    pieces_.push_back(piece);
    return true;
  }

  bool ReadCoded(const LiteralBlock& block, DevicePiece& piece,
                 std::optional<uint32_t>& tree) {
    std::string_view streams = block.data;
    if (!block.repeats_tree) {
      const auto tree_bytes = HuffmanDescriptionBytes(streams);
      if (!tree_bytes) return false;
      tree = FindTree(streams.substr(0, *tree_bytes));
      streams.remove_prefix(*tree_bytes);
    }
    if (!tree) return false;
    piece.tree = *tree;
    piece.stream_count = block.has_four_streams ? kStreamCountMax : 1;
    return ReadStreams(streams, piece);
  }

  bool ReadStreams(std::string_view streams, DevicePiece& piece) const {
    const size_t count = piece.stream_count;
    const size_t part_bytes = (piece.decoded_bytes + count - 1) / count;
    std::string_view rest = streams;
    if (count > 1) {
      if (streams.size() < kJumpTableBytes) return false;
      rest.remove_prefix(kJumpTableBytes);
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t byte_count =
          i + 1 < count ? LoadLittle<uint16_t>(streams.data() + 2 * i)
                        : rest.size();
      if (byte_count > rest.size() || byte_count == 0 ||
          i * part_bytes > piece.decoded_bytes) {
        return false;
      }
      // The highest set bit of the last byte marks the end.
      const auto last = static_cast<uint8_t>(rest[byte_count - 1]);
      if (last == 0) return false;
      piece.stream_at[i] = PlaceOf(rest);
      piece.stream_bits[i] = static_cast<uint32_t>(
          8 * byte_count - 9 + static_cast<size_t>(std::bit_width(last)));
      rest.remove_prefix(byte_count);
    }
    return true;
  }

  std::optional<uint32_t> FindTree(std::string_view description) {
    const auto at = plan_.tree_of_description_.find(description);
    if (at != plan_.tree_of_description_.end()) return at->second;
    const auto weights = ParseHuffmanWeights(description);
    if (!weights) return std::nullopt;
    const auto number = static_cast<uint32_t>(plan_.trees_.size());
    plan_.trees_.push_back(TreeOf(*weights));
    plan_.tree_of_description_.emplace(description, number);
    return number;
  }

  DevicePlanesPlan& plan_;
  const std::string_view container_;
  const uint64_t encoded_at_;
  const uint64_t elements_at_;
  BloscHeader header_;
  uint64_t scratch_bytes_;
  uint64_t piece_count_max_ = 0;
  std::vector<DevicePiece> pieces_;
  std::vector<DeviceFrame> frames_;
};

bool DevicePlanesPlan::Add(std::string_view container, uint64_t encoded_at,
                           uint64_t decoded_bytes, uint64_t elements_at,
                           uint64_t host_bytes_max) {
  const size_t tree_count = trees_.size();
  Reader reader(*this, container, encoded_at, elements_at);
  if (reader.Read(decoded_bytes) &&
      reader.Commit(decoded_bytes, host_bytes_max)) {
    return true;
  }
  trees_.resize(tree_count);
  std::erase_if(tree_of_description_,
                [&](const auto& entry) { return entry.second >= tree_count; });
  return false;
}

uint64_t DevicePlanesPlan::table_bytes() const {
  return trees_at() + TableBytes(trees_);
}

uint64_t DevicePlanesPlan::frames_at() const { return TableBytes(pieces_); }

uint64_t DevicePlanesPlan::trees_at() const {
  return frames_at() + TableBytes(frames_);
}

uint64_t DevicePlanesPlan::result_count() const {
  return pieces_.size() + (checks_frames_ ? frames_.size() : 0);
}

uint64_t DevicePlanesPlan::HostBytes(uint64_t piece_count,
                                     uint64_t frame_count) const {
  const uint64_t result_count =
      piece_count + (checks_frames_ ? frame_count : 0);
  return Aligned(piece_count * sizeof(DevicePiece)) +
         Aligned(frame_count * sizeof(DeviceFrame)) + TableBytes(trees_) +
         Aligned(result_count * sizeof(uint32_t));
}

uint64_t DevicePlanesPlan::host_bytes() const {
  return HostBytes(pieces_.size(), frames_.size());
}

void DevicePlanesPlan::WriteTables(char* out) const {
  WriteTable(trees_, WriteTable(frames_, WriteTable(pieces_, out)));
}

uint32_t DevicePlanesPlan::piece_count() const {
  return static_cast<uint32_t>(pieces_.size());
}

uint32_t DevicePlanesPlan::frame_count() const {
  return static_cast<uint32_t>(frames_.size());
}

bool DevicePlanesPlan::IsDecoded(size_t container,
                                 std::span<const uint32_t> results) const {
  assert(container < containers_.size() && results.size() == result_count());
  const Container first = containers_[container];
  const Container last = container + 1 < containers_.size()
                             ? containers_[container + 1]
                             : Container{pieces_.size(), frames_.size()};
  const auto are_done = [&](size_t begin, size_t end) {
    return std::all_of(results.begin() + static_cast<ptrdiff_t>(begin),
                       results.begin() + static_cast<ptrdiff_t>(end),
                       [](uint32_t word) { return word == kPieceIsDone; });
  };
  return are_done(first.first_piece, last.first_piece) &&
         (!checks_frames_ || are_done(pieces_.size() + first.first_frame,
                                      pieces_.size() + last.first_frame));
}

}  // namespace holdfast
