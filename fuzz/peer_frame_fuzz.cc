// Messages that another process may send on a connection: hellos and heads. An
// accepted message, written out, equals the input. The size of a failure
// message is bounded.
#include "fuzz_util.h"
#include "tiers/peers/peer_frame.h"

namespace {

using namespace holdfast;

void CheckHead(std::string_view bytes, PeerFrameKind kind) {
  const auto head = ParsePeerHead(bytes, kind);
  if (!head.ok()) {
    FUZZ_CHECK(head.status().code() == StatusCode::kDataLoss);
    return;
  }
  FUZZ_CHECK(head->kind == kind && EncodePeerHead(*head) == bytes);
  FUZZ_CHECK(head->code == StatusCode::kOk ||
             head->payload_bytes <= kPeerMessageBytesMax);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = FuzzText(data, size);
  if (size >= kPeerHelloBytes) {
    const std::string_view hello = input.substr(0, kPeerHelloBytes);
    const auto nonce = ParsePeerHello(hello);
    if (nonce.ok()) FUZZ_CHECK(EncodePeerHello(*nonce) == hello);
  }
  if (size < kPeerHeadBytes) return 0;
  std::string head(input.substr(0, kPeerHeadBytes));
  for (const auto kind : {PeerFrameKind::kRequest, PeerFrameKind::kAnswer}) {
    CheckHead(head, kind);
  }
  // Corrects the checksum, which mutations would almost never match.
  PutLittleEndian(Crc32c(std::string_view(head).substr(0, kPeerHeadBytes - 4)),
                  4, &head[kPeerHeadBytes - 4]);
  for (const auto kind : {PeerFrameKind::kRequest, PeerFrameKind::kAnswer}) {
    CheckHead(head, kind);
  }
  return 0;
}
