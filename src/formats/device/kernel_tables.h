// The tables by which the host tells the kernels of kernels.cuh their work. The
// host's compiler and NVRTC both read this file.
//
// Thread-safety: plain data. Units: bytes, unless a name says bits. Offsets are
// in the buffers that a launch is given.
#pragma once

#ifdef __CUDACC_RTC__
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#else
#include <cstdint>
#endif

namespace holdfast {

constexpr uint32_t kTreeBitsMax = 11;
constexpr uint32_t kTreeEntryCount = 1u << kTreeBitsMax;
constexpr uint32_t kStreamCountMax = 4;
// The threads in a block: of all kernels but the one that checks frames.
constexpr uint32_t kBlockThreads = 256;
// The threads that compute a frame's checksum.
constexpr uint32_t kLaneCount = 4;

// The result of a piece or a frame that is as it should be. Any other word is a
// failure, so memory that no kernel has reached is one.
constexpr uint32_t kPieceIsDone = 0x600dda7a;

// A tree of Huffman codes. The next 11 bits of a stream are an entry. Entries
// of longer codes come first; entries of codes of c bits, and their bytes,
// begin at index c of the two arrays and end at index c - 1.
struct DeviceTree {
  uint16_t entries_before[kTreeBitsMax + 1];  // [0]: all entries
  uint16_t bytes_before[kTreeBitsMax + 1];
  // Divides the length of each code, so that codes begin only at multiples.
  uint16_t code_step;
  uint8_t bytes[256];
};

enum DevicePieceKind : uint32_t { kStoredPiece, kRunPiece, kCodedPiece };

// One block of a zstd frame.
struct DevicePiece {
  uint64_t encoded_at = 0;  // of the bytes, or of the one repeated byte
  uint64_t scratch_at = 0;
  uint32_t decoded_bytes = 0;
  uint32_t kind = kStoredPiece;
  uint32_t tree = 0;
  uint32_t stream_count = 0;
  uint64_t stream_at[kStreamCountMax] = {};
  uint32_t stream_bits[kStreamCountMax] = {};
};

// One block of a blosc container: the planes of its items, in scratch memory.
struct DeviceFrame {
  uint64_t scratch_at = 0;  // a multiple of 16
  uint64_t elements_at = 0;
  uint32_t byte_count = 0;
  uint32_t item_bytes = 1;
  uint32_t checksum = 0;
  uint32_t has_checksum = 0;
};

// The unit of work of one block of threads that joins planes.
constexpr uint32_t kTileItems = 4096;

// Which bits of a byte count in a fingerprint.
enum DeviceByteRule : uint64_t {
  kAllBits,
  kZeroOrOne,
  kLowBits,        // those of the mask
  kLowBitsOrSign,  // those of the mask; its highest bit for any bit above it
};

// A box is rows that are contiguous in the array. The rows follow each other in
// memory; in the array they are steps apart, along up to kOuterRankMax axes.
constexpr uint32_t kOuterRankMax = 4;
struct DeviceBox {
  uint64_t array_at = 0;  // of the first byte
  uint64_t row_bytes = 0;
  uint64_t row_count = 0;
  uint64_t counts[kOuterRankMax] = {1, 1, 1, 1};
  uint64_t steps[kOuterRankMax] = {};
  uint64_t rule = kAllBits;
  uint64_t mask = 0xff;
};

struct DeviceSum {
  uint64_t low = 0;
  uint64_t high = 0;
};

}  // namespace holdfast
