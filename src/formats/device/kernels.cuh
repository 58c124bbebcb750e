// Kernels that decode byte planes and sum fingerprints on a GPU.
//
// This text is compiled at run time by NVRTC (nvrtc.cc), and for tests by the
// host's compiler (tests/twins/host_kernels.cc). So a kernel is a sequence of
// phases: HF_EACH_THREAD(t) { ... } runs once for each thread t of a block, and
// then waits for all of them. Only HF_SHARED variables outlive a phase. Outside
// of phases, all threads of a block take the same way.
//
// No read or write is outside the byte counts that a kernel is given, whatever
// the encoded bytes hold. The tables are the host's own work. Memory is aligned
// to 16 bytes, except for the elements, which may begin anywhere.
#include "formats/device/kernel_tables.h"

#ifdef __CUDACC_RTC__
#define HF_KERNEL extern "C" __global__ void __launch_bounds__(256)
#define HF_SHARED(type, name) __shared__ type name
#define HF_UNROLL _Pragma("unroll 4")
#define HF_EACH_THREAD(t)                                   \
  for (uint32_t t = threadIdx.x, hf_turn = 1; hf_turn != 0; \
       hf_turn = 0, __syncthreads())
#endif

namespace holdfast::kernels {

// Words at addresses that are multiples of the words' size.

template <typename T>
inline T LoadWord(const uint8_t* from) {
#ifdef __CUDACC_RTC__
  return *reinterpret_cast<const T*>(from);
#else
  assert(reinterpret_cast<uint64_t>(from) % sizeof(T) == 0);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
#endif
}

template <typename T>
inline void StoreWord(uint8_t* to, T value) {
#ifdef __CUDACC_RTC__
  *reinterpret_cast<T*>(to) = value;
#else
  assert(reinterpret_cast<uint64_t>(to) % sizeof(T) == 0);
  std::memcpy(to, &value, sizeof value);
#endif
}

constexpr uint32_t kPieceIsDamaged = 1;

inline uint64_t LesserOf(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Returns the four bytes from `at` on, as a little-endian number. Bytes outside
// of the buffer count as zeros.
inline uint32_t BytesAt(const uint8_t* data, uint64_t byte_count, int64_t at) {
  const uint64_t address = reinterpret_cast<uint64_t>(data) + at;
  const int64_t first = at - static_cast<int64_t>(address & 3);
  const int64_t end = static_cast<int64_t>(byte_count);
  if (first == at && at >= 0 && at + 4 <= end) {
    return LoadWord<uint32_t>(data + at);
  }
  if (first >= 0 && first + 8 <= end) {
    const uint32_t shift = 8 * static_cast<uint32_t>(address & 3);
    const uint64_t low = LoadWord<uint32_t>(data + first);
    const uint64_t high = LoadWord<uint32_t>(data + first + 4);
    return static_cast<uint32_t>((high << 32 | low) >> shift);
  }
  uint32_t word = 0;
  for (int64_t i = 0; i < 4; ++i) {
    if (at + i < 0 || at + i >= end) continue;
    word |= static_cast<uint32_t>(data[at + i]) << (8 * i);
  }
  return word;
}

// Huffman streams. A stream is read from its end. It is cut into segments of
// equally many bits, one for each of 64 threads, which at first guess that a
// code begins where their segment does. If the thread before it ends elsewhere,
// a thread starts again from there, until all agree. Codes of different lengths
// fall into step after a few bytes, and codes of one length begin at multiples
// of it, so nearly always the second try is right. The worst case takes as many
// turns as there are segments, as long as one thread would take for the stream.

constexpr uint32_t kStreamSegments = kBlockThreads / kStreamCountMax;
constexpr uint32_t kEntryByteCountMax = 3;

struct ExpandShared {
  DeviceTree tree;
  // Bits 0 to 23: bytes, at most three, whose codes begin the entry's 11 bits;
  // 24 to 27: the bits of these codes; 28 and 29: the number of bytes.
  uint32_t entries[kTreeEntryCount];
  // Of each thread's segment: bits from the stream's first one on, and bytes.
  uint32_t starts[kBlockThreads];
  uint32_t wanted_starts[kBlockThreads];
  uint32_t ends[kBlockThreads];
  uint32_t byte_counts[kBlockThreads];
  uint32_t targets[kBlockThreads];  // of the first byte, in the piece
  uint32_t last_change;             // the turn in which a thread last decoded
  uint32_t is_damaged[kStreamCountMax];
};

struct TreeCode {
  uint32_t byte;
  uint32_t bit_count;
};

// Returns the code that begins an entry.
inline TreeCode FirstCode(const DeviceTree& tree, uint32_t entry) {
  uint32_t bit_count = kTreeBitsMax;
  while (bit_count > 1 && entry >= tree.entries_before[bit_count - 1]) {
    --bit_count;
  }
  const uint32_t after = entry - tree.entries_before[bit_count];
  const uint32_t rank =
      tree.bytes_before[bit_count] + (after >> (kTreeBitsMax - bit_count));
  return {tree.bytes[rank & 255], bit_count};
}

inline uint32_t MakeEntry(const DeviceTree& tree, uint32_t entry) {
  uint32_t bytes = 0;
  uint32_t bit_count = 0;
  uint32_t byte_count = 0;
  while (byte_count < kEntryByteCountMax) {
    const TreeCode code =
        FirstCode(tree, entry << bit_count & (kTreeEntryCount - 1));
    if (bit_count + code.bit_count > kTreeBitsMax) break;
    bytes |= code.byte << (8 * byte_count);
    bit_count += code.bit_count;
    ++byte_count;
  }
  return bytes | bit_count << 24 | byte_count << 28;
}

// Reads the encoded bytes from higher to lower addresses, one word ahead. Bits
// before the buffer are zeros. Bits before the stream are whatever is there;
// only a damaged stream ends in a code that contains some.
struct BitsReader {
  const uint8_t* data = nullptr;
  uint64_t byte_count = 0;
  int64_t next_at = 0;      // of the word after `ahead`
  uint32_t ahead = 0;       // the word after `bits`
  uint64_t bits = 0;        // the next one in the highest place
  uint32_t bits_count = 0;  // in `bits`; above 32 after Fill

  // The first bit is the one before bit `at` of the data.
  void Begin(uint64_t at) {
    next_at = (static_cast<int64_t>(at) - 1) >> 5 << 2;
    bits_count = static_cast<uint32_t>(static_cast<int64_t>(at) - 8 * next_at);
    bits = static_cast<uint64_t>(NextWord()) << (64 - bits_count);
    ahead = NextWord();
  }
  void Fill() {
    if (bits_count > 32) return;
    bits |= static_cast<uint64_t>(ahead) << (32 - bits_count);
    bits_count += 32;
    ahead = NextWord();
  }
  uint32_t Entry() const {
    return static_cast<uint32_t>(bits >> (64 - kTreeBitsMax));
  }
  void Skip(uint32_t count) {
    bits <<= count;
    bits_count -= count;
  }
  uint32_t NextWord() {
    const int64_t at = next_at;
    next_at -= 4;
    return BytesAt(data, byte_count, at);
  }
};

// Writes bytes to [at, end), in words where it can. Drops what is beyond.
struct BytesWriter {
  uint8_t* data = nullptr;
  uint64_t at = 0;
  uint64_t end = 0;
  uint64_t waiting = 0;
  uint32_t waiting_count = 0;

  void Put(uint32_t bytes, uint32_t count) {
    waiting |= static_cast<uint64_t>(bytes) << (8 * waiting_count);
    waiting_count += count;
    while (waiting_count > 0 && (at & 3) != 0) PutByte();
    if (waiting_count < 4 || at + 4 > end) return;
    StoreWord(data + at, static_cast<uint32_t>(waiting));
    at += 4;
    waiting >>= 32;
    waiting_count -= 4;
  }
  void Finish() {
    while (waiting_count > 0) PutByte();
  }
  void PutByte() {
    if (at < end) data[at] = static_cast<uint8_t>(waiting);
    ++at;
    waiting >>= 8;
    --waiting_count;
  }
};

struct SegmentEnd {
  uint32_t bit;
  uint32_t byte_count;
};

// Decodes the codes that begin in bits [start, limit) of a stream. Returns the
// bit after them, and how many they are.
template <typename Put>
inline SegmentEnd DecodeSegment(const ExpandShared& shared, BitsReader& reader,
                                uint32_t start, uint32_t limit, Put&& put) {
  uint32_t at = start;
  uint32_t byte_count = 0;
  while (at + kTreeBitsMax <= limit) {
    reader.Fill();
    const uint32_t entry = shared.entries[reader.Entry()];
    const uint32_t count = entry >> 28;
    reader.Skip(entry >> 24 & 15);
    at += entry >> 24 & 15;
    byte_count += count;
    put(entry & 0xffffff, count);
  }
  while (at < limit) {
    reader.Fill();
    const TreeCode code = FirstCode(shared.tree, reader.Entry());
    reader.Skip(code.bit_count);
    at += code.bit_count;
    ++byte_count;
    put(code.byte, 1);
  }
  return {at, byte_count};
}

// The bits of a stream that belong to one thread.
struct Segment {
  uint32_t stream;
  uint32_t begin;
  uint32_t limit;
};

inline Segment SegmentOf(const DevicePiece& piece, uint32_t code_step,
                         uint32_t t) {
  const uint32_t stream = t / kStreamSegments;
  const uint32_t index = t % kStreamSegments;
  const uint32_t bit_count = piece.stream_bits[stream];
  const uint32_t step_count = bit_count / (kStreamSegments * code_step) + 1;
  const uint32_t each = step_count * code_step;
  const uint64_t begin = LesserOf(index * each, bit_count);
  const uint64_t limit = LesserOf(begin + each, bit_count);
  return {stream, static_cast<uint32_t>(begin), static_cast<uint32_t>(limit)};
}

inline BitsReader ReaderOf(const DevicePiece& piece, const uint8_t* encoded,
                           uint64_t encoded_bytes, uint32_t stream,
                           uint32_t start) {
  BitsReader reader;
  reader.data = encoded;
  reader.byte_count = encoded_bytes;
  reader.Begin(8 * piece.stream_at[stream] + piece.stream_bits[stream] - start);
  return reader;
}

// Decodes thread t's segment without keeping the bytes.
inline void TrySegment(ExpandShared& shared, const DevicePiece& piece,
                       const uint8_t* encoded, uint64_t encoded_bytes,
                       uint32_t t, uint32_t start) {
  const Segment segment = SegmentOf(piece, shared.tree.code_step, t);
  BitsReader reader =
      ReaderOf(piece, encoded, encoded_bytes, segment.stream, start);
  const SegmentEnd end = DecodeSegment(shared, reader, start, segment.limit,
                                       [](uint32_t, uint32_t) {});
  shared.starts[t] = start;
  shared.ends[t] = end.bit;
  shared.byte_counts[t] = end.byte_count;
}

// Numbers the bytes of a stream's segments, and checks that they end where they
// should.
inline void PlaceSegments(ExpandShared& shared, const DevicePiece& piece,
                          uint32_t stream) {
  const uint32_t part_bytes =
      (piece.decoded_bytes + piece.stream_count - 1) / piece.stream_count;
  const uint64_t begin =
      LesserOf(uint64_t{stream} * part_bytes, piece.decoded_bytes);
  const uint64_t end = LesserOf(begin + part_bytes, piece.decoded_bytes);
  const uint32_t first = stream * kStreamSegments;
  uint64_t at = begin;
  for (uint32_t t = first; t < first + kStreamSegments; ++t) {
    shared.targets[t] = static_cast<uint32_t>(at);
    at += shared.byte_counts[t];
  }
  shared.is_damaged[stream] =
      at != end ||
      shared.ends[first + kStreamSegments - 1] != piece.stream_bits[stream];
}

inline void CopyPiece(const DevicePiece& piece, const uint8_t* encoded,
                      uint64_t encoded_bytes, uint8_t* scratch, uint32_t t) {
  const uint32_t whole = piece.decoded_bytes / 4 * 4;
  const bool is_aligned = (piece.scratch_at & 3) == 0;
  const uint32_t word_bytes = is_aligned ? whole : 0;
  const auto from = static_cast<int64_t>(piece.encoded_at);
  HF_UNROLL
  for (uint32_t i = 4 * t; i < word_bytes; i += 4 * kBlockThreads) {
    StoreWord(scratch + piece.scratch_at + i,
              BytesAt(encoded, encoded_bytes, from + i));
  }
  for (uint32_t i = word_bytes + t; i < piece.decoded_bytes;
       i += kBlockThreads) {
    scratch[piece.scratch_at + i] = encoded[piece.encoded_at + i];
  }
}

// Returns whether all of the piece is inside the buffers.
inline bool FitsIn(const DevicePiece& piece, uint64_t encoded_bytes,
                   uint64_t scratch_bytes) {
  const uint64_t source_bytes = piece.kind == kStoredPiece ? piece.decoded_bytes
                                : piece.kind == kRunPiece  ? 1
                                                           : 0;
  bool fits = piece.scratch_at <= scratch_bytes &&
              piece.decoded_bytes <= scratch_bytes - piece.scratch_at &&
              piece.encoded_at <= encoded_bytes &&
              source_bytes <= encoded_bytes - piece.encoded_at;
  for (uint32_t i = 0; i < piece.stream_count; ++i) {
    fits = fits && piece.stream_at[i] <= encoded_bytes &&
           piece.stream_bits[i] / 8 <= encoded_bytes - piece.stream_at[i];
  }
  return fits;
}

}  // namespace holdfast::kernels

// One block of threads for each piece, which it writes to scratch.
HF_KERNEL holdfast_expand_pieces(const uint8_t* encoded, uint64_t encoded_bytes,
                                 const holdfast::DevicePiece* pieces,
                                 const holdfast::DeviceTree* trees,
                                 uint8_t* scratch, uint64_t scratch_bytes,
                                 uint32_t* results) {
  using namespace holdfast;
  using namespace holdfast::kernels;
  HF_SHARED(ExpandShared, shared);
  const DevicePiece& piece = pieces[blockIdx.x];
  if (!FitsIn(piece, encoded_bytes, scratch_bytes)) {
    HF_EACH_THREAD(t) {
      if (t == 0) results[blockIdx.x] = kPieceIsDamaged;
    }
    return;
  }
  if (piece.kind != kCodedPiece) {
    HF_EACH_THREAD(t) {
      if (piece.kind == kStoredPiece) {
        CopyPiece(piece, encoded, encoded_bytes, scratch, t);
      } else {
        for (uint32_t i = t; i < piece.decoded_bytes; i += kBlockThreads) {
          scratch[piece.scratch_at + i] = encoded[piece.encoded_at];
        }
      }
      if (t == 0) results[blockIdx.x] = kPieceIsDone;
    }
    return;
  }
  HF_EACH_THREAD(t) {
    const DeviceTree& tree = trees[piece.tree];
    shared.tree.bytes[t] = tree.bytes[t];
    if (t <= kTreeBitsMax) {
      shared.tree.entries_before[t] = tree.entries_before[t];
      shared.tree.bytes_before[t] = tree.bytes_before[t];
    }
    if (t == 0) shared.tree.code_step = tree.code_step;
    if (t == 0) shared.last_change = 0;
    if (t < kStreamCountMax) shared.is_damaged[t] = 0;
  }
  HF_EACH_THREAD(t) {
    for (uint32_t i = t; i < kTreeEntryCount; i += kBlockThreads) {
      shared.entries[i] = MakeEntry(shared.tree, i);
    }
  }
  const uint32_t thread_count = piece.stream_count * kStreamSegments;
  HF_EACH_THREAD(t) {
    if (t >= thread_count) continue;
    TrySegment(shared, piece, encoded, encoded_bytes, t,
               SegmentOf(piece, shared.tree.code_step, t).begin);
  }
  for (uint32_t turn = 1; turn < kStreamSegments; ++turn) {
    HF_EACH_THREAD(t) {
      if (t >= thread_count) continue;
      const bool is_first = t % kStreamSegments == 0;
      shared.wanted_starts[t] = is_first ? 0 : shared.ends[t - 1];
    }
    HF_EACH_THREAD(t) {
      if (t >= thread_count) continue;
      if (shared.wanted_starts[t] == shared.starts[t]) continue;
      TrySegment(shared, piece, encoded, encoded_bytes, t,
                 shared.wanted_starts[t]);
      shared.last_change = turn;
    }
    if (shared.last_change != turn) break;
  }
  HF_EACH_THREAD(t) {
    if (t < piece.stream_count) PlaceSegments(shared, piece, t);
  }
  const bool is_damaged =
      shared.is_damaged[0] != 0 || shared.is_damaged[1] != 0 ||
      shared.is_damaged[2] != 0 || shared.is_damaged[3] != 0;
  HF_EACH_THREAD(t) {
    if (t == 0) {
      results[blockIdx.x] = is_damaged ? kPieceIsDamaged : kPieceIsDone;
    }
    if (is_damaged || t >= thread_count) continue;
    const Segment segment = SegmentOf(piece, shared.tree.code_step, t);
    BytesWriter writer;
    writer.data = scratch;
    writer.at = piece.scratch_at + shared.targets[t];
    writer.end = piece.scratch_at + piece.decoded_bytes;
    BitsReader reader = ReaderOf(piece, encoded, encoded_bytes, segment.stream,
                                 shared.starts[t]);
    (void)DecodeSegment(
        shared, reader, shared.starts[t], segment.limit,
        [&](uint32_t bytes, uint32_t count) { writer.Put(bytes, count); });
    writer.Finish();
  }
}

namespace holdfast::kernels {

// Writes items `first` to `last` of a frame, in units of T.
template <typename T>
inline void JoinItems(const DeviceFrame& frame, const uint8_t* planes,
                      uint64_t item_count, uint64_t first, uint64_t last,
                      uint8_t* out) {
  for (uint64_t i = first; i < last; i += kBlockThreads) {
    for (uint32_t k = 0; k < frame.item_bytes; k += sizeof(T)) {
      T unit = 0;
      for (uint32_t b = 0; b < sizeof(T); ++b) {
        unit |= static_cast<T>(static_cast<T>(planes[(k + b) * item_count + i])
                               << (8 * b));
      }
      StoreWord(out + i * frame.item_bytes + k, unit);
    }
  }
}

}  // namespace holdfast::kernels

// `tile_count` blocks of threads for each frame, which it writes to elements.
HF_KERNEL holdfast_join_planes(const uint8_t* scratch, uint64_t scratch_bytes,
                               const holdfast::DeviceFrame* frames,
                               uint64_t tile_count, uint8_t* elements,
                               uint64_t elements_bytes) {
  using namespace holdfast;
  using namespace holdfast::kernels;
  const DeviceFrame& frame = frames[blockIdx.x / tile_count];
  const uint64_t tile = blockIdx.x % tile_count;
  if (frame.scratch_at > scratch_bytes || frame.elements_at > elements_bytes ||
      frame.byte_count > scratch_bytes - frame.scratch_at ||
      frame.byte_count > elements_bytes - frame.elements_at) {
    return;
  }
  const uint8_t* const planes = scratch + frame.scratch_at;
  uint8_t* const out = elements + frame.elements_at;
  const uint64_t item_count = frame.byte_count / frame.item_bytes;
  // A store's address must be a multiple of its size.
  const uint64_t common =
      reinterpret_cast<uint64_t>(out) | uint64_t{frame.item_bytes};
  HF_EACH_THREAD(t) {
    const uint64_t first = tile * kTileItems + t;
    const uint64_t last = LesserOf((tile + 1) * kTileItems, item_count);
    if ((common & 7) == 0) {
      JoinItems<uint64_t>(frame, planes, item_count, first, last, out);
    } else if ((common & 3) == 0) {
      JoinItems<uint32_t>(frame, planes, item_count, first, last, out);
    } else if ((common & 1) == 0) {
      JoinItems<uint16_t>(frame, planes, item_count, first, last, out);
    } else {
      JoinItems<uint8_t>(frame, planes, item_count, first, last, out);
    }
    // Bytes after the last item are not shuffled.
    const uint64_t rest = item_count * frame.item_bytes + t;
    if (tile == 0 && rest < frame.byte_count) out[rest] = planes[rest];
  }
}

namespace holdfast::kernels {

// The checksum of frames: the lower half of XXH64 with seed 0
// (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5;
constexpr uint32_t kStripeBytes = 32;

inline uint64_t RotatedLeft(uint64_t x, uint32_t count) {
  return x << count | x >> (64 - count);
}

inline uint64_t HashRound(uint64_t lane, uint64_t word) {
  return RotatedLeft(lane + word * kPrime2, 31) * kPrime1;
}

inline uint64_t LaneOf(const uint8_t* data, uint64_t byte_count, uint32_t i) {
  uint64_t lane = i == 0   ? kPrime1 + kPrime2
                  : i == 1 ? kPrime2
                  : i == 2 ? 0
                           : 0 - kPrime1;
  HF_UNROLL
  for (uint64_t at = 0; at + kStripeBytes <= byte_count; at += kStripeBytes) {
    lane = HashRound(lane, LoadWord<uint64_t>(data + at + 8 * i));
  }
  return lane;
}

inline uint64_t HashOf(const uint8_t* data, uint64_t byte_count,
                       const uint64_t* lanes) {
  uint64_t hash = kPrime5;
  if (byte_count >= kStripeBytes) {
    hash = RotatedLeft(lanes[0], 1) + RotatedLeft(lanes[1], 7) +
           RotatedLeft(lanes[2], 12) + RotatedLeft(lanes[3], 18);
    for (uint32_t i = 0; i < kLaneCount; ++i) {
      hash = (hash ^ HashRound(0, lanes[i])) * kPrime1 + kPrime4;
    }
  }
  hash += byte_count;
  uint64_t at = byte_count / kStripeBytes * kStripeBytes;
  for (; at + 8 <= byte_count; at += 8) {
    hash ^= HashRound(0, LoadWord<uint64_t>(data + at));
    hash = RotatedLeft(hash, 27) * kPrime1 + kPrime4;
  }
  for (; at + 4 <= byte_count; at += 4) {
    hash ^= LoadWord<uint32_t>(data + at) * kPrime1;
    hash = RotatedLeft(hash, 23) * kPrime2 + kPrime3;
  }
  for (; at < byte_count; ++at) {
    hash = RotatedLeft(hash ^ data[at] * kPrime5, 11) * kPrime1;
  }
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace holdfast::kernels

// One block of kLaneCount threads for each frame, whose planes in scratch it
// compares with the frame's checksum.
HF_KERNEL holdfast_check_frames(const uint8_t* scratch, uint64_t scratch_bytes,
                                const holdfast::DeviceFrame* frames,
                                uint32_t* results) {
  using namespace holdfast;
  using namespace holdfast::kernels;
  HF_SHARED(uint64_t, lanes[kLaneCount]);
  const DeviceFrame& frame = frames[blockIdx.x];
  const bool fits = frame.scratch_at <= scratch_bytes &&
                    frame.byte_count <= scratch_bytes - frame.scratch_at;
  const uint64_t byte_count = fits && frame.has_checksum ? frame.byte_count : 0;
  const uint8_t* const planes = scratch + frame.scratch_at;
  HF_EACH_THREAD(t) { lanes[t] = LaneOf(planes, byte_count, t); }
  HF_EACH_THREAD(t) {
    if (t != 0) continue;
    const bool is_same = !frame.has_checksum ||
                         static_cast<uint32_t>(HashOf(planes, byte_count,
                                                      lanes)) == frame.checksum;
    results[blockIdx.x] = fits && is_same ? kPieceIsDone : kPieceIsDamaged;
  }
}

namespace holdfast::kernels {

// The fingerprint, as ground/fingerprint/sum.h defines it.

constexpr uint32_t kSumBlockBytes = 4096;
constexpr uint32_t kWordsPerThread = kSumBlockBytes / 4 / kBlockThreads;

inline uint64_t MixBits(uint64_t number) {
  uint64_t z = number + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Returns word j's factor in its block: of the low half of a sum (0) or of the
// high half (1).
inline uint64_t WordFactor(uint32_t j, uint32_t half) {
  return MixBits((uint64_t{1} << 63) + 2 * j + half) >> 32 | 1;
}

// Returns the bits of each of the four bytes that count.
inline uint32_t RuledBytes(uint32_t word, uint64_t rule, uint32_t mask) {
  if (rule == kAllBits) return word;
  uint32_t result = 0;
  for (uint32_t shift = 0; shift < 32; shift += 8) {
    const uint32_t byte = word >> shift & 0xff;
    uint32_t ruled = byte & mask;
    if (rule == kZeroOrOne) ruled = byte != 0;
    if (rule == kLowBitsOrSign && byte > mask) ruled |= (mask + 1) / 2;
    result |= ruled << shift;
  }
  return result;
}

// The part of a row that is in one block of 4096 bytes of the array.
struct SumPart {
  uint64_t block = 0;
  uint64_t first = 0;   // byte of the array, and the one after the last
  uint64_t last = 0;    // `first` or less: none
  int64_t data_at = 0;  // where byte 0 of the array would be in the data
};

inline SumPart PartOf(const DeviceBox& box, uint64_t parts_per_row,
                      uint64_t number) {
  uint64_t row = number / parts_per_row;
  const uint64_t memory_at = row * box.row_bytes;
  uint64_t array_at = box.array_at;
  for (uint32_t i = kOuterRankMax; i-- > 0;) {
    array_at += row % box.counts[i] * box.steps[i];
    row /= box.counts[i];
  }
  SumPart part;
  part.block = array_at / kSumBlockBytes + number % parts_per_row;
  const uint64_t block_at = part.block * kSumBlockBytes;
  part.first = array_at > block_at ? array_at : block_at;
  part.last = LesserOf(array_at + box.row_bytes, block_at + kSumBlockBytes);
  part.data_at = static_cast<int64_t>(memory_at - array_at);
  return part;
}

// Returns the bytes of a word of the array that are in the part.
inline uint32_t WordOfPart(const SumPart& part, uint64_t word_at,
                           const uint8_t* data, uint64_t byte_count) {
  if (word_at + 4 <= part.first || word_at >= part.last) return 0;
  uint32_t word =
      BytesAt(data, byte_count, part.data_at + static_cast<int64_t>(word_at));
  if (word_at < part.first) word &= ~0u << (8 * (part.first - word_at));
  if (word_at + 4 > part.last) word &= ~0u >> (8 * (word_at + 4 - part.last));
  return word;
}

}  // namespace holdfast::kernels

// Any number of blocks of threads, each of which writes one sum. The sum of
// these is the box's. The arguments from array_at on are a DeviceBox.
HF_KERNEL holdfast_sum_box(const uint8_t* data, uint64_t byte_count,
                           holdfast::DeviceSum* sums, uint64_t array_at,
                           uint64_t row_bytes, uint64_t row_count,
                           uint64_t count0, uint64_t count1, uint64_t count2,
                           uint64_t count3, uint64_t step0, uint64_t step1,
                           uint64_t step2, uint64_t step3, uint64_t rule,
                           uint64_t mask) {
  using namespace holdfast;
  using namespace holdfast::kernels;
  HF_SHARED(uint64_t, lows[kBlockThreads]);
  HF_SHARED(uint64_t, highs[kBlockThreads]);
  const DeviceBox box{array_at,
                      row_bytes,
                      row_count,
                      {count0, count1, count2, count3},
                      {step0, step1, step2, step3},
                      rule,
                      mask};
  const uint64_t parts_per_row =
      (box.row_bytes + kSumBlockBytes - 1) / kSumBlockBytes + 1;
  const uint64_t part_count = parts_per_row * box.row_count;
  HF_EACH_THREAD(t) {
    uint64_t factors[kWordsPerThread][2];
    for (uint32_t k = 0; k < kWordsPerThread; ++k) {
      factors[k][0] = WordFactor(t + k * kBlockThreads, 0);
      factors[k][1] = WordFactor(t + k * kBlockThreads, 1);
    }
    uint64_t low = 0;
    uint64_t high = 0;
    for (uint64_t i = blockIdx.x; i < part_count; i += gridDim.x) {
      const SumPart part = PartOf(box, parts_per_row, i);
      if (part.last <= part.first) continue;
      uint64_t part_low = 0;
      uint64_t part_high = 0;
      for (uint32_t k = 0; k < kWordsPerThread; ++k) {
        const uint64_t word_at =
            part.block * kSumBlockBytes + 4 * (t + k * kBlockThreads);
        const uint64_t word =
            RuledBytes(WordOfPart(part, word_at, data, byte_count), box.rule,
                       static_cast<uint32_t>(box.mask));
        part_low += word * factors[k][0];
        part_high += word * factors[k][1];
      }
      low += part_low * (MixBits(2 * part.block) | 1);
      high += part_high * (MixBits(2 * part.block + 1) | 1);
    }
    lows[t] = low;
    highs[t] = high;
  }
  for (uint32_t half = kBlockThreads / 2; half > 0; half /= 2) {
    HF_EACH_THREAD(t) {
      if (t >= half) continue;
      lows[t] += lows[t + half];
      highs[t] += highs[t + half];
    }
  }
  HF_EACH_THREAD(t) {
    if (t == 0) sums[blockIdx.x] = {lows[0], highs[0]};
  }
}
