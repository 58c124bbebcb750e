#include "formats/codec/zstd_literals.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "ground/base/coding.h"
#include "ground/base/xxh64.h"

namespace holdfast {
namespace {

enum LiteralsType : uint64_t {
  kRawLiterals,
  kRunLiterals,
  kCodedLiterals,
  kTreelessLiterals
};

// Below this size, four streams and a tree do not pay off; libzstd has the same
// limit.
constexpr size_t kCodedBytesMin = 256;

// A tree is kept while it costs at most this much more than a new tree would.
constexpr double kKeptTreeExcess = 1.003;

// The size of a sample: windows spread over the block.
constexpr size_t kSampleWindowCount = 8;
constexpr size_t kSampleWindowBytes = 512;
// A sample is accurate to about a thousandth.
constexpr double kSampleSavingMin = 0.8 * kBlockSavingMin;

bool IsOneByte(std::string_view in) {
  return std::memcmp(in.data(), in.data() + 1, in.size() - 1) == 0;
}

// Returns the fraction of the block that coding would save, estimated from a
// sample, with the correction of Miller and Madow for bytes that the sample
// misses.
double SampledSaving(std::string_view in) {
  const size_t window_bytes = std::min(in.size(), kSampleWindowBytes);
  const size_t count =
      std::clamp<size_t>(in.size() / window_bytes, 1, kSampleWindowCount);
  const size_t stride =
      count > 1 ? (in.size() - window_bytes) / (count - 1) : 0;
  ByteCounts counts{};
  for (size_t i = 0; i < count; ++i) {
    const char* const window = in.data() + i * stride;
    for (size_t k = 0; k < window_bytes; ++k) {
      ++counts[static_cast<uint8_t>(window[k])];
    }
  }
  const auto total = static_cast<double>(count * window_bytes);
  const auto distinct = 256 - std::count(counts.begin(), counts.end(), 0u);
  const double missed_bits = static_cast<double>(distinct - 1) / (2 * M_LN2);
  return 1 - (EntropyBits(counts) + missed_bits) / (8 * total);
}

// The layout of the Literals_Section_Header for coded literals.
struct CodedHeader {
  int size_bits = 0;  // of each of the two sizes
  int format = 0;
  size_t byte_count() const { return (4 + 2 * size_bits + 7) / 8; }
};

CodedHeader CodedHeaderFor(size_t decoded_bytes) {
  if (decoded_bytes < 1u << 10) return {10, 1};
  if (decoded_bytes < 1u << 14) return {14, 2};
  return {18, 3};
}

// Takes the first `byte_count` bytes of `from`.
bool TakeBytes(std::string_view& from, size_t byte_count,
               std::string_view& taken) {
  if (from.size() < byte_count) return false;
  taken = from.substr(0, byte_count);
  from.remove_prefix(byte_count);
  return true;
}

uint64_t LoadBytes(std::string_view bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

// Reads Raw_Literals and RLE_Literals inside a compressed block.
bool ReadPlainLiterals(uint64_t head, std::string_view& content,
                       LiteralBlock& block) {
  const unsigned format = head >> 2 & 3;
  const bool is_short = (format & 1) == 0;
  const int header_bytes = is_short ? 1 : format == 1 ? 2 : 3;
  const int shift = is_short ? 3 : 4;
  std::string_view header;
  if (!TakeBytes(content, header_bytes, header)) return false;
  block.decoded_bytes = LoadBytes(header) >> shift;
  const bool is_run = (head & 3) == kRunLiterals;
  block.kind = is_run ? LiteralBlock::Kind::kRun : LiteralBlock::Kind::kRaw;
  return TakeBytes(content, is_run ? 1 : block.decoded_bytes, block.data);
}

bool ReadCodedLiterals(uint64_t head, std::string_view& content,
                       LiteralBlock& block) {
  const unsigned format = head >> 2 & 3;
  const int size_bits = format <= 1 ? 10 : format == 2 ? 14 : 18;
  const uint64_t mask = (uint64_t{1} << size_bits) - 1;
  std::string_view header;
  if (!TakeBytes(content, (4 + 2 * size_bits + 7) / 8, header)) return false;
  block.kind = LiteralBlock::Kind::kCoded;
  block.repeats_tree = (head & 3) == kTreelessLiterals;
  block.has_four_streams = format != 0;
  block.decoded_bytes = head >> 4 & mask;
  return TakeBytes(content, head >> (4 + size_bits) & mask, block.data);
}

// Returns false when the block contains anything but literals.
bool ReadCompressedBlock(std::string_view content, LiteralBlock& block) {
  if (content.empty()) return false;
  const uint64_t head = LoadBytes(content);
  const bool is_coded = (head & 3) >= kCodedLiterals;
  const bool is_read = is_coded ? ReadCodedLiterals(head, content, block)
                                : ReadPlainLiterals(head, content, block);
  // The number of sequences must be 0.
  return is_read && content.size() == 1 && content[0] == 0 &&
         block.decoded_bytes <= kZstdBlockBytesMax;
}

}  // namespace

bool LiteralsWriter::ChooseCode(std::string_view in) {
  if (in.size() < kCodedBytesMin || SampledSaving(in) < kSampleSavingMin) {
    return false;
  }
  const ByteCounts counts = CountBytes(in);
  const double entropy_bits = EntropyBits(counts);
  const auto kept_bits = code_ ? code_->BitsOf(counts) : std::nullopt;
  const double kept_bits_max = entropy_bits * excess_ * kKeptTreeExcess;
  if (kept_bits && static_cast<double>(*kept_bits) <= kept_bits_max) {
    bit_count_ = *kept_bits;
  } else {
    code_ = HuffmanCode::Of(counts);
    if (!code_) return false;
    bit_count_ = *code_->BitsOf(counts);
    excess_ = static_cast<double>(bit_count_) / std::max(entropy_bits, 1.0);
    frame_has_tree_ = false;
  }
  const size_t coded_bytes = bit_count_ / 8 + code_->description().size() +
                             kHuffmanSpareBytes + kZstdBlockHeaderBytes;
  return static_cast<double>(coded_bytes) <
         static_cast<double>(in.size()) * (1 - kBlockSavingMin);
}

size_t LiteralsWriter::WriteCoded(std::string_view in, bool is_last,
                                  char* out) const {
  const CodedHeader layout = CodedHeaderFor(in.size());
  char* const header = out + kZstdBlockHeaderBytes;
  char* p = header + layout.byte_count();
  if (!frame_has_tree_) {
    const std::string_view tree = code_->description();
    std::memcpy(p, tree.data(), tree.size());
    p += tree.size();
  }
  p += code_->Encode(in, p);
  const uint64_t coded_bytes = p - (header + layout.byte_count());
  const uint64_t bits = (frame_has_tree_ ? kTreelessLiterals : kCodedLiterals) |
                        static_cast<uint64_t>(layout.format) << 2 |
                        uint64_t{in.size()} << 4 |
                        coded_bytes << (4 + layout.size_bits);
  std::memcpy(header, &bits, layout.byte_count());
  *p++ = 0;  // no sequences
  WriteZstdBlockHeader(ZstdBlockType::kCompressed, p - header, is_last, out);
  return p - out;
}

size_t LiteralsWriter::Write(std::string_view in, bool is_last, char* out) {
  assert(!in.empty() && in.size() <= kZstdBlockBytesMax);
  if (IsOneByte(in)) {
    out[kZstdBlockHeaderBytes] = in[0];
    return WriteZstdBlockHeader(ZstdBlockType::kRun, in.size(), is_last, out) +
           1;
  }
  if (ChooseCode(in)) {
    const size_t byte_count = WriteCoded(in, is_last, out);
    frame_has_tree_ = true;
    return byte_count;
  }
  std::memcpy(out + kZstdBlockHeaderBytes, in.data(), in.size());
  return WriteZstdBlockHeader(ZstdBlockType::kRaw, in.size(), is_last, out) +
         in.size();
}

size_t WriteLiteralFrame(std::string_view in, bool checksum, char* out) {
  if (in.empty()) {
    return WriteStoredZstdFrame(in, checksum,
                                {out, StoredZstdFrameBytes(0, checksum)});
  }
  LiteralsWriter writer;
  Xxh64 hash;
  char* p = out + WriteZstdFrameHeader(in.size(), checksum, out);
  while (!in.empty()) {
    const std::string_view block = in.substr(0, kZstdBlockBytesMax);
    in.remove_prefix(block.size());
    p += writer.Write(block, in.empty(), p);
    if (checksum) hash.Update(block);
  }
  if (checksum) {
    StoreLittle(p, static_cast<uint32_t>(hash.Digest()));
    p += kZstdChecksumBytes;
  }
  return p - out;
}

bool LiteralsReader::Next(LiteralBlock& block) {
  std::string_view header;
  if (!TakeBytes(rest_, kZstdBlockHeaderBytes, header)) return false;
  const uint64_t bits = LoadBytes(header);
  const auto type = static_cast<ZstdBlockType>(bits >> 1 & 3);
  const bool is_run = type == ZstdBlockType::kRun;
  const size_t size = bits >> 3;
  block = LiteralBlock();
  block.is_last = bits & 1;
  std::string_view content;
  if (size > kZstdBlockBytesMax ||
      !TakeBytes(rest_, is_run ? 1 : size, content)) {
    return false;
  }
  if (type == ZstdBlockType::kCompressed) {
    return ReadCompressedBlock(content, block);
  }
  block.kind = is_run ? LiteralBlock::Kind::kRun : LiteralBlock::Kind::kRaw;
  block.decoded_bytes = size;
  block.data = content;
  return type != ZstdBlockType::kReserved;
}

bool LiteralsDecoder::Decode(const LiteralBlock& block, std::span<char> out) {
  if (out.empty()) return true;
  if (block.kind == LiteralBlock::Kind::kRaw) {
    std::memcpy(out.data(), block.data.data(), out.size());
    return true;
  }
  if (block.kind == LiteralBlock::Kind::kRun) {
    std::memset(out.data(), block.data[0], out.size());
    return true;
  }
  std::string_view streams = block.data;
  if (!block.repeats_tree) {
    const auto tree_bytes = HuffmanDescriptionBytes(streams);
    if (!tree_bytes) return false;
    table_ = tables_.Find(streams.substr(0, *tree_bytes));
    streams.remove_prefix(*tree_bytes);
  }
  return table_ != nullptr &&
         table_->Decode(streams, block.has_four_streams, out);
}

bool DecodeLiteralFrame(std::string_view frame, const ZstdFrameInfo& info,
                        std::span<char> out, HuffmanTables& tables) {
  const std::string_view blocks = frame.substr(info.header_bytes);
  // Headers are checked first: this is cheap, and a single sequence would make
  // all earlier decoding useless.
  LiteralBlock block;
  size_t decoded_bytes = 0;
  for (LiteralsReader reader(blocks); !block.is_last;) {
    if (!reader.Next(block) || block.decoded_bytes > info.window_bytes) {
      return false;
    }
    decoded_bytes += block.decoded_bytes;
  }
  if (decoded_bytes != out.size()) return false;
  LiteralsReader reader(blocks);
  LiteralsDecoder decoder(tables);
  Xxh64 hash;
  for (size_t at = 0; at < out.size(); at += block.decoded_bytes) {
    reader.Next(block);
    const std::span<char> part = out.subspan(at, block.decoded_bytes);
    if (!decoder.Decode(block, part)) return false;
    if (info.has_checksum) hash.Update({part.data(), part.size()});
  }
  while (!block.is_last) reader.Next(block);
  if (!info.has_checksum) return true;
  return reader.rest().size() == sizeof(uint32_t) &&
         LoadLittle<uint32_t>(reader.rest().data()) ==
             static_cast<uint32_t>(hash.Digest());
}

}  // namespace holdfast
