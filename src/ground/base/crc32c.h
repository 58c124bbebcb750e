// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78, init and final xor
// 0xFFFFFFFF; not masked): the checksum of OCDBT, of zarr's crc32c codec and of
// holdfast's digests. It is computed in hardware if the processor supports
// that, otherwise from a table. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

// Returns CRC of `data`.
uint32_t Crc32c(std::string_view data);
// Returns the CRC of A+data, given the CRC of A.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view data);
// Returns the CRC of A+B, given the CRCs of A and B and the size of B. Reads no
// data and takes about a microsecond.
uint32_t JoinCrc32c(uint32_t a, uint32_t b, uint64_t b_byte_count);
// Does the same slowly, one bit at a time: a reference for tests.
uint32_t ExtendCrc32cSlow(uint32_t crc, std::string_view data);

}  // namespace holdfast
