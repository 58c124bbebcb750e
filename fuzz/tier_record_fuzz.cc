// Records that another host may store on its disk or send about a step of the
// tiers: the records of members and groups, checksums, lists of files, and
// reports of what is left. An accepted record is still the same after writing
// and reading, and planning with it works.
#include "fuzz_util.h"
#include "tiers/manager/recovery_plan.h"
#include "tiers/manager/tier_record.h"

namespace {

using namespace holdfast;

// Larger steps would only take longer.
constexpr uint64_t kPlannedBytesMax = 1 << 16;

// Corrects the checksum, which mutations would almost never match.
std::string Repaired(std::string_view input) {
  std::string text(input);
  if (text.size() < 4) return text;
  const std::string_view covered(text.data(), text.size() - 4);
  PutLittleEndian(Crc32c(covered), 4, &text[covered.size()]);
  return text;
}

void CheckRecords(std::string_view bytes) {
  const auto group = DecodeGroupRecord(bytes);
  if (group.ok()) {
    const std::string encoded = EncodeGroupRecord(*group);
    FUZZ_CHECK_OK(DecodeGroupRecord(encoded));
    FUZZ_CHECK(EncodeGroupRecord(*DecodeGroupRecord(encoded)) == encoded);
    for (const int64_t rank : group->ranks()) {
      FUZZ_CHECK(group->ranks()[group->IndexOf(rank)] == rank);
    }
  } else {
    FUZZ_CHECK(group.status().code() == StatusCode::kDataLoss);
  }
  const auto member = DecodeMemberRecord(bytes, 512);
  if (member.ok()) {
    const std::string encoded = EncodeMemberRecord(*member);
    FUZZ_CHECK_OK(DecodeMemberRecord(encoded, 512));
  }
  const auto sums = DecodeSums(bytes);
  if (sums.ok()) FUZZ_CHECK(*DecodeSums(EncodeSums(*sums)) == *sums);
}

bool IsSmall(const RankReport& report) {
  uint64_t total = 0;
  for (const GroupShape& shape : report.shapes) {
    for (const uint64_t count : shape.data_bytes) {
      if (count > kPlannedBytesMax) return false;
      total += count;
    }
  }
  return total <= kPlannedBytesMax;
}

void CheckReport(std::string_view bytes) {
  const auto report = DecodeRankReport(bytes);
  if (!report.ok()) {
    FUZZ_CHECK(report.status().code() == StatusCode::kDataLoss);
    return;
  }
  const std::string encoded = EncodeRankReport(*report);
  FUZZ_CHECK(EncodeRankReport(*DecodeRankReport(encoded)) == encoded);
  if (!IsSmall(*report)) return;
  const RecoveryPlan plan = PlanRecovery({*report, RankReport()});
  if (!plan.why_not.empty()) return;
  for (const int64_t holder : plan.holders()) {
    FUZZ_CHECK(holder == 0 || holder == 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = FuzzText(data, size);
  CheckRecords(input);
  CheckRecords(Repaired(input));
  CheckReport(input);
  const auto files = DecodeFileList(input);
  if (files.ok()) FUZZ_CHECK_OK(DecodeFileList(EncodeFileList(*files)));
  return 0;
}
