#include "tools/rescue/node_scan.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr uint64_t kScanBytes = uint64_t{1} << 20;
// Magic, length, format version, compression.
constexpr uint64_t kNodeHeadBytes = 14;
constexpr uint64_t kNodeBytesMin = 16;
constexpr uint64_t kNodeCrcBytes = 4;
constexpr std::string_view kMagicStart = "\x0c\xdb";

class Scanner {
 public:
  Scanner(Store& store, const std::string& file, uint64_t file_bytes,
          const CancelToken* cancel)
      : store_(store),
        file_(file),
        file_bytes_(file_bytes),
        cancel_(cancel),
        crc_bytes_left_(kRereadsMax * file_bytes) {}

  Result<std::vector<ScannedNode>> Run() {
    for (uint64_t begin = 0; begin + kNodeBytesMin <= file_bytes_;) {
      const uint64_t count = std::min(kScanBytes, file_bytes_ - begin);
      HF_ASSIGN_OR_RETURN(const Bytes block, Read(begin, count));
      HF_RETURN_IF_ERROR(ScanBlock(begin, block.view()));
      if (begin + count == file_bytes_) break;
      // The next block begins early enough to contain a header that crosses the
      // border.
      begin = std::max(next_, begin + count - (kNodeHeadBytes - 1));
    }
    return std::move(nodes_);
  }

 private:
  Result<Bytes> Read(uint64_t offset, uint64_t count) {
    if (cancel_ != nullptr) HF_RETURN_IF_ERROR(cancel_->Check());
    return store_.Read(file_, {offset, count});
  }

  Status ScanBlock(uint64_t begin, std::string_view block) {
    size_t at = block.find(kMagicStart);
    for (; at != block.npos; at = block.find(kMagicStart, at + 1)) {
      if (begin + at < next_) continue;
      const auto node = HeadAt(begin + at, block.substr(at));
      if (!node) continue;
      HF_ASSIGN_OR_RETURN(const bool is_whole, HasGoodCrc(*node));
      if (!is_whole) continue;
      nodes_.push_back(*node);
      next_ = node->offset + node->byte_count;
    }
    return Status();
  }

  std::optional<ScannedNode> HeadAt(uint64_t offset, std::string_view bytes) {
    if (bytes.size() < kNodeHeadBytes) return std::nullopt;
    const uint32_t magic =
        __builtin_bswap32(LoadLittle<uint32_t>(bytes.data()));
    const auto kind = static_cast<ocdbt::ObjectKind>(magic);
    if (kind != ocdbt::ObjectKind::kBtreeNode &&
        kind != ocdbt::ObjectKind::kVersionTreeNode) {
      return std::nullopt;
    }
    const auto byte_count = LoadLittle<uint64_t>(bytes.data() + 4);
    const bool is_plausible = byte_count >= kNodeBytesMin &&
                              byte_count <= file_bytes_ - offset &&
                              bytes[12] == 0 && (bytes[13] & ~1) == 0;
    if (!is_plausible) return std::nullopt;
    return ScannedNode{kind, offset, byte_count};
  }

  // Returns true if the node's CRC is right. The bytes read for this are
  // limited, because a hostile file may contain any number of false headers.
  Result<bool> HasGoodCrc(const ScannedNode& node) {
    if (node.byte_count > crc_bytes_left_) return false;
    crc_bytes_left_ -= node.byte_count;
    uint32_t crc = 0;
    const uint64_t end = node.offset + node.byte_count - kNodeCrcBytes;
    for (uint64_t offset = node.offset; offset < end;) {
      const uint64_t count = std::min(kScanBytes, end - offset);
      HF_ASSIGN_OR_RETURN(const Bytes piece, Read(offset, count));
      crc = ExtendCrc32c(crc, piece.view());
      offset += count;
    }
    HF_ASSIGN_OR_RETURN(const Bytes stored, Read(end, kNodeCrcBytes));
    return LoadLittle<uint32_t>(stored.data()) == crc;
  }

  Store& store_;
  const std::string& file_;
  const uint64_t file_bytes_;
  const CancelToken* const cancel_;
  uint64_t crc_bytes_left_;
  uint64_t next_ = 0;  // after the last node
  std::vector<ScannedNode> nodes_;
};

}  // namespace

Result<std::vector<ScannedNode>> ScanForNodes(Store& store,
                                              const std::string& file,
                                              uint64_t file_bytes,
                                              const CancelToken* cancel) {
  return Scanner(store, file, file_bytes, cancel).Run();
}

}  // namespace holdfast
