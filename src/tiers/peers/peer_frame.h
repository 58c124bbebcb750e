// Encodes and parses the messages that two processes exchange over one
// connection.
//
//   hello     client -> server   magic, version, nonce of the client
//   welcome   server -> client   magic, version, nonce of the server, proof
//   proof     client -> server   proof
//   request   client -> server   head, payload     } any number of times,
//   answer    server -> client   head, payload     } one after the other
//
// A proof is the HMAC-SHA256, with the secret as its key, of the prover's side
// and both nonces. Each side proves that it has the secret, and no message of
// the handshake can be replayed. Later messages are neither encrypted nor
// signed.
//
// Head: u8 kind, u8 status code, u8 flags, u8 zero, u32 CRC-32C of the payload,
// u64 size of the payload, u32 CRC-32C of the 16 bytes before. All numbers are
// little-endian. If an answer's code is not ok, its payload is the error
// message. Flag 1 marks an ok answer whose payload has no checksum (the field
// is then 0).
// Thread-safety: pure functions. Units: bytes.
// Errors: DataLoss for malformed bytes, FailedPrecondition for another version.
// No more memory is allocated than the bytes justify.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr uint16_t kPeerVersion = 2;
inline constexpr size_t kPeerNonceBytes = 16;
inline constexpr size_t kPeerProofBytes = 32;
inline constexpr size_t kPeerHelloBytes = 8 + kPeerNonceBytes;
inline constexpr size_t kPeerWelcomeBytes = kPeerHelloBytes + kPeerProofBytes;
inline constexpr size_t kPeerHeadBytes = 20;
// The longest error message; the server truncates longer ones.
inline constexpr uint64_t kPeerMessageBytesMax = 64 << 10;

std::string RandomPeerNonce();

// Returns the start of a hello and of a welcome.
std::string EncodePeerHello(std::string_view nonce);
// Returns the nonce. REQUIRES: `bytes` has kPeerHelloBytes bytes.
Result<std::string_view> ParsePeerHello(std::string_view bytes);

enum class PeerSide : uint8_t { kClient = 'c', kServer = 's' };
std::string PeerProof(std::string_view secret, PeerSide prover,
                      std::string_view client_nonce,
                      std::string_view server_nonce);
// Compares two proofs, in a time that does not depend on where they differ.
bool IsSameProof(std::string_view a, std::string_view b);

enum class PeerFrameKind : uint8_t { kRequest = 'q', kAnswer = 'a' };
struct PeerFrameHead {
  PeerFrameKind kind = PeerFrameKind::kRequest;
  StatusCode code = StatusCode::kOk;  // not ok only in answers
  bool has_crc = true;                // false only in answers that are ok
  uint32_t payload_crc = 0;
  uint64_t payload_bytes = 0;
};
std::string EncodePeerHead(const PeerFrameHead& head);
// Parses a head. The payload size is only the peer's claim, which the caller
// must limit. REQUIRES: `bytes` has kPeerHeadBytes bytes.
Result<PeerFrameHead> ParsePeerHead(std::string_view bytes,
                                    PeerFrameKind wanted);

}  // namespace holdfast
