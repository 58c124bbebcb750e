#include "formats/codec/xxh64.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ground/base/coding.h"

namespace holdfast {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;

uint64_t Round(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

uint64_t MergeLane(uint64_t hash, uint64_t lane) {
  return (hash ^ Round(0, lane)) * kPrime1 + kPrime4;
}

// Lanes are locals so that the four chains stay in registers.
void ConsumeStripes(const char* p, size_t stripe_count,
                    std::array<uint64_t, 4>& lanes) {
  auto [a, b, c, d] = lanes;
  for (; stripe_count > 0; --stripe_count, p += 32) {
    a = Round(a, LoadLittle<uint64_t>(p));
    b = Round(b, LoadLittle<uint64_t>(p + 8));
    c = Round(c, LoadLittle<uint64_t>(p + 16));
    d = Round(d, LoadLittle<uint64_t>(p + 24));
  }
  lanes = {a, b, c, d};
}

uint64_t MixTail(uint64_t hash, std::string_view tail) {
  const char* p = tail.data();
  const char* const end = p + tail.size();
  for (; end - p >= 8; p += 8) {
    hash ^= Round(0, LoadLittle<uint64_t>(p));
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  if (end - p >= 4) {
    hash ^= LoadLittle<uint32_t>(p) * kPrime1;
    hash = std::rotl(hash, 23) * kPrime2 + kPrime3;
    p += 4;
  }
  for (; p < end; ++p) {
    hash ^= static_cast<uint8_t>(*p) * kPrime5;
    hash = std::rotl(hash, 11) * kPrime1;
  }
  return hash;
}

uint64_t Avalanche(uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

Xxh64::Xxh64() : lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1} {}

void Xxh64::Update(std::string_view data) {
  if (data.empty()) return;
  const size_t pending_bytes = total_bytes_ % kStripeBytes;
  total_bytes_ += data.size();
  if (pending_bytes > 0) {
    const size_t taken = std::min(kStripeBytes - pending_bytes, data.size());
    std::memcpy(pending_ + pending_bytes, data.data(), taken);
    data.remove_prefix(taken);
    if (pending_bytes + taken < kStripeBytes) return;
    ConsumeStripes(pending_, 1, lanes_);
  }
  ConsumeStripes(data.data(), data.size() / kStripeBytes, lanes_);
  const size_t left = data.size() % kStripeBytes;
  if (left > 0) std::memcpy(pending_, data.end() - left, left);
}

uint64_t Xxh64::Digest() const {
  uint64_t hash = kPrime5;
  if (total_bytes_ >= kStripeBytes) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) +
           std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (uint64_t lane : lanes_) hash = MergeLane(hash, lane);
  }
  hash += total_bytes_;
  return Avalanche(MixTail(hash, {pending_, total_bytes_ % kStripeBytes}));
}

}  // namespace holdfast
