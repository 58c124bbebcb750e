// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78, init and final xor
// 0xFFFFFFFF; not masked): the checksum of OCDBT, of zarr's crc32c codec and of
// holdfast's digests. It is computed in hardware where the processor supports
// that, otherwise from a table. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

// CRC of `data`.
uint32_t Crc32c(std::string_view data);
// CRC of A+data, given the CRC of A.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view data);
// CRC of A+B, from the CRCs of A and B and the size of B, without reading any
// byte again. Takes about a microsecond.
uint32_t JoinCrc32c(uint32_t a, uint32_t b, uint64_t b_byte_count);
// Slow reference implementation, one bit at a time; for tests.
uint32_t ExtendCrc32cSlow(uint32_t crc, std::string_view data);

}  // namespace holdfast
