#include "tiers/peers/peer_frame.h"

#include <cassert>
#include <optional>

#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "ground/base/sha256.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

constexpr std::string_view kPeerMagic = "hfpeer";
constexpr size_t kPeerHeadCrcOffset = kPeerHeadBytes - 4;
constexpr uint8_t kPeerNoCrcFlag = 1;

}  // namespace

std::string RandomPeerNonce() { return *BytesOfHex(RandomHex32()); }

std::string EncodePeerHello(std::string_view nonce) {
  assert(nonce.size() == kPeerNonceBytes);
  std::string bytes(kPeerMagic);
  bytes += static_cast<char>(kPeerVersion & 0xff);
  bytes += static_cast<char>(kPeerVersion >> 8);
  return bytes.append(nonce);
}

Result<std::string_view> ParsePeerHello(std::string_view bytes) {
  assert(bytes.size() == kPeerHelloBytes);
  if (!bytes.starts_with(kPeerMagic)) {
    return DataLossError("the server there is not holdfast");
  }
  const auto version = LoadLittle<uint16_t>(bytes.data() + kPeerMagic.size());
  if (version != kPeerVersion) {
    return FailedPreconditionError(
        "another version of holdfast is there (got protocol " +
        std::to_string(version) + ", want " + std::to_string(kPeerVersion) +
        ")");
  }
  return bytes.substr(kPeerMagic.size() + sizeof(version));
}

std::string PeerProof(std::string_view secret, PeerSide prover,
                      std::string_view client_nonce,
                      std::string_view server_nonce) {
  std::string text(1, static_cast<char>(prover));
  text.append(client_nonce).append(server_nonce);
  return HmacSha256(secret, text);
}

bool IsSameProof(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

std::string EncodePeerHead(const PeerFrameHead& head) {
  std::string bytes;
  bytes += static_cast<char>(head.kind);
  bytes += static_cast<char>(head.code);
  bytes += static_cast<char>(head.has_crc ? 0 : kPeerNoCrcFlag);
  bytes += '\0';
  PutU32Little(bytes, head.payload_crc);
  PutU64Little(bytes, head.payload_bytes);
  PutU32Little(bytes, Crc32c(bytes));
  return bytes;
}

Result<PeerFrameHead> ParsePeerHead(std::string_view bytes,
                                    PeerFrameKind wanted) {
  assert(bytes.size() == kPeerHeadBytes);
  const auto crc = LoadLittle<uint32_t>(bytes.data() + kPeerHeadCrcOffset);
  if (crc != Crc32c(bytes.substr(0, kPeerHeadCrcOffset))) {
    return DataLossError("the head of a frame has another checksum");
  }
  PeerFrameHead head;
  const auto code = static_cast<uint8_t>(bytes[1]);
  const bool is_answer = wanted == PeerFrameKind::kAnswer;
  const auto code_max =
      is_answer ? static_cast<uint8_t>(StatusCode::kInternal) : 0;
  const auto flags = static_cast<uint8_t>(bytes[2]);
  const uint8_t flags_max = is_answer && code == 0 ? kPeerNoCrcFlag : 0;
  if (static_cast<uint8_t>(bytes[0]) != static_cast<uint8_t>(wanted) ||
      code > code_max || flags > flags_max || bytes[3] != 0) {
    return DataLossError("a frame has an unexpected kind, code or flag");
  }
  head.kind = wanted;
  head.code = static_cast<StatusCode>(code);
  head.has_crc = flags == 0;
  head.payload_crc = LoadLittle<uint32_t>(bytes.data() + 4);
  if (!head.has_crc && head.payload_crc != 0) {
    return DataLossError("a frame without a checksum has one");
  }
  head.payload_bytes = LoadLittle<uint64_t>(bytes.data() + 8);
  if (head.code != StatusCode::kOk &&
      head.payload_bytes > kPeerMessageBytesMax) {
    return DataLossError("a failure has a message of " +
                         std::to_string(head.payload_bytes) + " bytes");
  }
  return head;
}

}  // namespace holdfast
