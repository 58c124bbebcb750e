#include "formats/delta/chunk_delta.h"

#include <algorithm>
#include <bit>

#include "formats/delta/word_masks.h"
#include "ground/base/status_macros.h"
#include "ground/base/xxh64.h"

namespace holdfast {
namespace {

enum class Mode : char {
  kSparse = 1,
  kDifferences = 2,
  kWhole = 3,
};

// If at least this fraction of words changes, their differences are coded plane
// by plane, which is then faster and not much larger.
constexpr double kDenseFrom = 0.35;
// If the differences take less than this fraction of the words' size, coding
// the words themselves is not even tried.
constexpr double kGoodPart = 0.4;

constexpr size_t kBloscBytesMin = 4096;
constexpr size_t kBloscBytesMax = size_t{64} << 20;

BytesCodecParams PlanesParams(const WordKind& kind, size_t byte_count) {
  const bool has_planes = kind.word_bytes > 1 && byte_count >= kBloscBytesMin &&
                          byte_count <= kBloscBytesMax;
  if (!has_planes) return ZstdParams{};
  BloscParams params;
  params.cname = "zstd";
  params.shuffle = 1;
  params.planes = true;
  return params;
}

Status BadChunk() { return DataLossError("a chunk's delta cannot be decoded"); }

}  // namespace

WordKind WordKindOf(DType dtype) {
  switch (dtype) {
    case DType::kBfloat16:
      return {2, 7};
    case DType::kFloat16:
      return {2, 10};
    case DType::kFloat32:
    case DType::kComplex64:
      return {4, 23};
    case DType::kComplex128:
      return {8, -1};
    case DType::kFloat8E3m4:
      return {1, 4};
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
      return {1, 3};
    case DType::kFloat8E5m2:
    case DType::kFloat8E5m2fnuz:
      return {1, 2};
    default:
      return {static_cast<int>(DTypeBytes(dtype)), -1};
  }
}

std::vector<uint32_t> FindChanges(size_t element_bytes, std::string_view a,
                                  std::string_view b) {
  std::vector<uint32_t> places;
  // An element of 16 bytes is two words of 8 bytes.
  const size_t word_bytes = std::min<size_t>(element_bytes, sizeof(uint64_t));
  const size_t words_each = element_bytes / word_bytes;
  WithWord(static_cast<int>(word_bytes), [&]<typename Word>(Word) {
    const auto* const from = reinterpret_cast<const Word*>(a.data());
    const auto* const to = reinterpret_cast<const Word*>(b.data());
    const size_t word_count = a.size() / sizeof(Word);
    const auto add = [&](size_t word) {
      const auto place = static_cast<uint32_t>(word / words_each);
      if (places.empty() || places.back() != place) places.push_back(place);
    };
    size_t word = 0;
    for (; word + kGroupWords <= word_count; word += kGroupWords) {
      for (uint64_t bits = DifferentWords(from + word, to + word); bits != 0;
           bits &= bits - 1) {
        add(word + static_cast<size_t>(std::countr_zero(bits)));
      }
    }
    for (; word < word_count; ++word) {
      if (from[word] != to[word]) add(word);
    }
  });
  return places;
}

uint64_t ChunkHash(std::string_view words) {
  Xxh64 hash;
  hash.Update(words);
  return hash.Digest();
}

Result<std::string> ChunkDelta::EncodeWhole(const WordKind& kind,
                                            std::string_view words) {
  HF_ASSIGN_OR_RETURN(const auto codec,
                      MakeBytesCodec(PlanesParams(kind, words.size()),
                                     static_cast<size_t>(kind.word_bytes)));
  std::string out(codec->EncodedBytesMax(words.size()), '\0');
  HF_ASSIGN_OR_RETURN(const size_t byte_count,
                      codec->Encode(words, out, context_));
  out.resize(byte_count);
  return out;
}

Status ChunkDelta::DecodeWhole(const WordKind& kind, std::string_view coded,
                               std::span<char> words) {
  HF_ASSIGN_OR_RETURN(const auto codec,
                      MakeBytesCodec(PlanesParams(kind, words.size()),
                                     static_cast<size_t>(kind.word_bytes)));
  return codec->Decode(coded, words, context_);
}

Result<std::string> ChunkDelta::Encode(const WordKind& kind,
                                       std::string_view base,
                                       std::string_view next) {
  const uint64_t change_count = sparse_.CountChanges(kind, base, next);
  if (change_count == 0) return std::string();
  const size_t word_count = base.size() / kind.word_bytes;
  if (static_cast<double>(change_count) <
      kDenseFrom * static_cast<double>(word_count)) {
    return static_cast<char>(Mode::kSparse) + sparse_.Encode(kind, base, next);
  }
  scratch_.Reserve(base.size());
  WithWord(kind.word_bytes, [&]<typename Word>(Word) {
    const auto* const from = reinterpret_cast<const Word*>(base.data());
    const auto* const to = reinterpret_cast<const Word*>(next.data());
    auto* const out = reinterpret_cast<Word*>(scratch_.data());
    for (size_t i = 0; i < word_count; ++i) {
      out[i] = DifferenceOf(from[i], to[i]);
    }
  });
  HF_ASSIGN_OR_RETURN(
      std::string coded,
      EncodeWhole(kind, scratch_.view().substr(0, base.size())));
  if (static_cast<double>(coded.size()) >
      kGoodPart * static_cast<double>(base.size())) {
    HF_ASSIGN_OR_RETURN(std::string whole, EncodeWhole(kind, next));
    if (whole.size() < coded.size()) {
      return static_cast<char>(Mode::kWhole) + std::move(whole);
    }
  }
  return static_cast<char>(Mode::kDifferences) + std::move(coded);
}

Status ChunkDelta::Apply(const WordKind& kind, std::string_view coded,
                         std::span<char> words) {
  if (coded.empty()) return Status();
  const std::string_view rest = coded.substr(1);
  switch (static_cast<Mode>(coded[0])) {
    case Mode::kSparse:
      return sparse_.Apply(kind, rest, words) ? Status() : BadChunk();
    case Mode::kDifferences:
      scratch_.Reserve(words.size());
      HF_RETURN_IF_ERROR(
          DecodeWhole(kind, rest, std::span(scratch_.data(), words.size())));
      WithWord(kind.word_bytes, [&]<typename Word>(Word) {
        const auto* const from = reinterpret_cast<const Word*>(scratch_.data());
        auto* const to = reinterpret_cast<Word*>(words.data());
        for (size_t i = 0; i < words.size() / sizeof(Word); ++i) {
          to[i] = WithDifference(to[i], from[i]);
        }
      });
      return Status();
    case Mode::kWhole:
      return DecodeWhole(kind, rest, words);
  }
  return BadChunk();
}

}  // namespace holdfast
