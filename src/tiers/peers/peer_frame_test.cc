#include "tiers/peers/peer_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

const std::string kNonceA(kPeerNonceBytes, 'a');
const std::string kNonceB(kPeerNonceBytes, 'b');

TEST(PeerFrameTest, HeadsComeBackAsTheyWere) {
  const PeerFrameHead request{.payload_crc = 0x01020304, .payload_bytes = 99};
  const auto parsed =
      ParsePeerHead(EncodePeerHead(request), PeerFrameKind::kRequest);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->payload_crc, 0x01020304u);
  EXPECT_EQ(parsed->payload_bytes, 99u);
  for (uint8_t code = 0; code <= 13; ++code) {
    const PeerFrameHead answer{.kind = PeerFrameKind::kAnswer,
                               .code = static_cast<StatusCode>(code)};
    const auto again =
        ParsePeerHead(EncodePeerHead(answer), PeerFrameKind::kAnswer);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(again->code, answer.code);
  }
}

TEST(PeerFrameTest, EveryChangedBitOfAHeadIsSeen) {
  const std::string head = EncodePeerHead({.kind = PeerFrameKind::kAnswer,
                                           .payload_crc = 7,
                                           .payload_bytes = 1000});
  ASSERT_EQ(head.size(), kPeerHeadBytes);
  for (size_t bit = 0; bit < 8 * head.size(); ++bit) {
    std::string changed = head;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(ParsePeerHead(changed, PeerFrameKind::kAnswer).status().code(),
              StatusCode::kDataLoss);
  }
}

TEST(PeerFrameTest, HeadsOfAnotherKindAreRefused) {
  const auto code_of = [](const PeerFrameHead& head, PeerFrameKind wanted) {
    return ParsePeerHead(EncodePeerHead(head), wanted).status().code();
  };
  EXPECT_EQ(code_of({}, PeerFrameKind::kAnswer), StatusCode::kDataLoss);
  EXPECT_EQ(code_of({.code = StatusCode::kNotFound}, PeerFrameKind::kRequest),
            StatusCode::kDataLoss);
  PeerFrameHead answer{.kind = PeerFrameKind::kAnswer};
  answer.code = static_cast<StatusCode>(14);
  EXPECT_EQ(code_of(answer, PeerFrameKind::kAnswer), StatusCode::kDataLoss);
  answer.code = StatusCode::kInternal;
  answer.payload_bytes = kPeerMessageBytesMax;
  EXPECT_EQ(code_of(answer, PeerFrameKind::kAnswer), StatusCode::kOk);
  ++answer.payload_bytes;
  EXPECT_EQ(code_of(answer, PeerFrameKind::kAnswer), StatusCode::kDataLoss);
}

TEST(PeerFrameTest, AnAnswerMayHaveNoChecksum) {
  PeerFrameHead head{.kind = PeerFrameKind::kAnswer, .has_crc = false};
  head.payload_bytes = 5;
  const auto parsed =
      ParsePeerHead(EncodePeerHead(head), PeerFrameKind::kAnswer);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_FALSE(parsed->has_crc);
  EXPECT_EQ(parsed->payload_bytes, 5u);
  const auto code_of = [](const PeerFrameHead& other) {
    return ParsePeerHead(EncodePeerHead(other), other.kind).status().code();
  };
  PeerFrameHead with_one = head;
  with_one.payload_crc = 1;
  PeerFrameHead failed = head;
  failed.code = StatusCode::kNotFound;
  PeerFrameHead request = head;
  request.kind = PeerFrameKind::kRequest;
  for (const PeerFrameHead& refused : {with_one, failed, request}) {
    EXPECT_EQ(code_of(refused), StatusCode::kDataLoss);
  }
}

TEST(PeerFrameTest, HellosSayTheirVersion) {
  std::string hello = EncodePeerHello(kNonceA);
  ASSERT_EQ(hello.size(), kPeerHelloBytes);
  ASSERT_TRUE(ParsePeerHello(hello).ok());
  EXPECT_EQ(*ParsePeerHello(hello), kNonceA);
  hello[6] = kPeerVersion + 1;
  const Status other = ParsePeerHello(hello).status();
  EXPECT_EQ(other.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(other.message(), HasSubstr("got protocol 3, want 2"));
  hello[0] = 'H';
  EXPECT_EQ(ParsePeerHello(hello).status().code(), StatusCode::kDataLoss);
}

TEST(PeerFrameTest, AProofDependsOnAllThatItIsOf) {
  const std::string proof =
      PeerProof("secret", PeerSide::kClient, kNonceA, kNonceB);
  EXPECT_EQ(proof.size(), kPeerProofBytes);
  EXPECT_TRUE(IsSameProof(
      proof, PeerProof("secret", PeerSide::kClient, kNonceA, kNonceB)));
  for (const std::string& other :
       {PeerProof("Secret", PeerSide::kClient, kNonceA, kNonceB),
        PeerProof("secret", PeerSide::kServer, kNonceA, kNonceB),
        PeerProof("secret", PeerSide::kClient, kNonceB, kNonceA),
        PeerProof("secret", PeerSide::kClient, kNonceA, kNonceA),
        proof.substr(1), std::string()}) {
    EXPECT_FALSE(IsSameProof(proof, other));
  }
  EXPECT_NE(RandomPeerNonce(), RandomPeerNonce());
  EXPECT_EQ(RandomPeerNonce().size(), kPeerNonceBytes);
}

}  // namespace
}  // namespace holdfast
