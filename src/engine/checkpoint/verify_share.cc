#include "engine/checkpoint/verify_share.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <tuple>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "holdfast/process_group.h"

namespace holdfast {
namespace {

constexpr uint64_t kDigestStart = 0xcbf29ce484222325;  // FNV-1a
constexpr uint64_t kDigestFactor = 0x100000001b3;

void PutDamage(std::string& out, const Damage& damage) {
  PutString(out, damage.leaf);
  PutString(out, damage.file);
  PutVarint(out, damage.offset.has_value());
  PutVarint(out, damage.offset.value_or(0));
  PutVarint(out, static_cast<uint64_t>(damage.status.code()));
  PutString(out, damage.status.message());
}

bool ReadDamage(Cursor& cursor, Damage& damage) {
  uint64_t has_offset = 0;
  uint64_t offset = 0;
  uint64_t code = 0;
  std::string message;
  if (!ReadString(cursor, damage.leaf) || !ReadString(cursor, damage.file) ||
      !ReadVarint64(cursor, has_offset) || !ReadVarint64(cursor, offset) ||
      !ReadVarint64(cursor, code) || !ReadString(cursor, message) ||
      code == 0 || code > static_cast<uint64_t>(StatusCode::kInternal)) {
    return false;
  }
  if (has_offset != 0) damage.offset = offset;
  damage.status = Status(static_cast<StatusCode>(code), std::move(message));
  return true;
}

void PutSeconds(std::string& out, double seconds) {
  PutU64Little(out, std::bit_cast<uint64_t>(seconds));
}

bool ReadSeconds(Cursor& cursor, double& seconds) {
  uint64_t bits = 0;
  if (!cursor.ReadU64Little(bits)) return false;
  seconds = std::bit_cast<double>(bits);
  return true;
}

void PutFindings(std::string& out, const std::vector<Damage>& findings) {
  PutVarint(out, findings.size());
  for (const Damage& finding : findings) PutDamage(out, finding);
}

bool ReadFindings(Cursor& cursor, std::vector<Damage>& findings) {
  uint64_t count = 0;
  if (!ReadVarint64(cursor, count) || count > cursor.remaining()) return false;
  for (uint64_t i = 0; i < count; ++i) {
    if (!ReadDamage(cursor, findings.emplace_back())) return false;
  }
  return true;
}

bool ReadCounts(Cursor& cursor, VerifyReport& report) {
  return ReadVarint64(cursor, report.leaf_count) &&
         ReadVarint64(cursor, report.chunk_count) &&
         ReadVarint64(cursor, report.checksummed_chunk_count) &&
         ReadVarint64(cursor, report.stats.decoded_bytes) &&
         ReadVarint64(cursor, report.stats.stored_bytes) &&
         ReadSeconds(cursor, report.stats.total_seconds);
}

bool ReadShare(Cursor& cursor, ShareReport& share) {
  uint64_t note_count = 0;
  if (!cursor.ReadU64Little(share.units_digest) ||
      !ReadCounts(cursor, share.report) ||
      !ReadFindings(cursor, share.report.damages) ||
      !ReadFindings(cursor, share.report.not_supported) ||
      !ReadVarint64(cursor, note_count) || note_count > cursor.remaining()) {
    return false;
  }
  for (uint64_t i = 0; i < note_count; ++i) {
    if (!ReadString(cursor, share.report.notes.emplace_back())) return false;
  }
  return cursor.remaining() == 0;
}

bool SameDamage(const Damage& a, const Damage& b) {
  return a.leaf == b.leaf && a.file == b.file && a.offset == b.offset &&
         a.status.ToString() == b.status.ToString();
}

void AddReport(VerifyReport report, VerifyReport& sum) {
  // All ranks count every leaf.
  sum.leaf_count = std::max(sum.leaf_count, report.leaf_count);
  sum.chunk_count += report.chunk_count;
  sum.checksummed_chunk_count += report.checksummed_chunk_count;
  sum.stats.decoded_bytes += report.stats.decoded_bytes;
  sum.stats.stored_bytes += report.stats.stored_bytes;
  sum.stats.total_seconds =
      std::max(sum.stats.total_seconds, report.stats.total_seconds);
  std::move(report.damages.begin(), report.damages.end(),
            std::back_inserter(sum.damages));
  std::move(report.not_supported.begin(), report.not_supported.end(),
            std::back_inserter(sum.not_supported));
  for (std::string& note : report.notes) {
    if (std::find(sum.notes.begin(), sum.notes.end(), note) ==
        sum.notes.end()) {
      sum.notes.push_back(std::move(note));
    }
  }
}

Result<VerifyReport> Combine(Result<ShareReport> mine, const std::string& path,
                             ProcessGroup& group) {
  const Meeting meeting{"verify", path};
  HF_RETURN_IF_ERROR(group.Agree(meeting, mine.status()));
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> encoded,
                      group.AllGather(meeting, EncodeShareReport(*mine)));
  std::vector<ShareReport> shares;
  for (const std::string& bytes : encoded) {
    HF_ASSIGN_OR_RETURN(shares.emplace_back(), DecodeShareReport(bytes));
  }
  return MergeShareReports(std::move(shares), path);
}

}  // namespace

Result<VerifyReport> VerifyInShares(
    const std::string& path, ProcessGroup* group,
    const std::function<Result<ShareReport>(WorkShare share)>& check) {
  const bool is_alone = group == nullptr || group->size() == 1;
  const WorkShare share(is_alone ? 0 : group->rank(),
                        is_alone ? 1 : group->size());
  return InGroupCall(group, [&]() -> Result<VerifyReport> {
    Result<ShareReport> mine = CatchBadAlloc([&] { return check(share); });
    if (is_alone) {
      if (!mine.ok()) return mine.status();
      return std::move(mine->report);
    }
    return CatchBadAlloc(
        [&] { return Combine(std::move(mine), path, *group); });
  });
}

WorkShare::WorkShare(int64_t rank, int64_t rank_count)
    : rank_(rank), bytes_by_rank_(rank_count), digest_(kDigestStart) {
  assert(0 <= rank && rank < rank_count);
}

bool WorkShare::Takes(std::string_view unit, uint64_t byte_count) {
  const auto least =
      std::min_element(bytes_by_rank_.begin(), bytes_by_rank_.end());
  *least += byte_count + 1;  // an empty unit is some work, too
  for (const char c : unit) {
    digest_ = (digest_ ^ static_cast<unsigned char>(c)) * kDigestFactor;
  }
  digest_ = (digest_ ^ byte_count) * kDigestFactor;
  return least - bytes_by_rank_.begin() == rank_;
}

std::string EncodeShareReport(const ShareReport& share) {
  const VerifyReport& report = share.report;
  std::string out;
  PutU64Little(out, share.units_digest);
  PutVarint(out, report.leaf_count);
  PutVarint(out, report.chunk_count);
  PutVarint(out, report.checksummed_chunk_count);
  PutVarint(out, report.stats.decoded_bytes);
  PutVarint(out, report.stats.stored_bytes);
  PutSeconds(out, report.stats.total_seconds);
  PutFindings(out, report.damages);
  PutFindings(out, report.not_supported);
  PutVarint(out, report.notes.size());
  for (const std::string& note : report.notes) PutString(out, note);
  return out;
}

Result<ShareReport> DecodeShareReport(std::string_view bytes) {
  Cursor cursor(bytes);
  ShareReport share;
  if (!ReadShare(cursor, share)) {
    return DataLossError("verify: a rank's report cannot be understood");
  }
  return share;
}

Result<VerifyReport> MergeShareReports(std::vector<ShareReport> shares,
                                       std::string_view path) {
  VerifyReport sum;
  std::string others;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank].units_digest == shares[0].units_digest) continue;
    others += (others.empty() ? " " : ", ") + std::to_string(rank);
  }
  if (!others.empty()) {
    return FailedPreconditionError("verify: " + std::string(path) +
                                   ": rank 0 does not see the same files and "
                                   "chunks there as ranks" +
                                   others);
  }
  for (ShareReport& share : shares) AddReport(std::move(share.report), sum);
  SortFindings(sum);
  for (std::vector<Damage>* found : {&sum.damages, &sum.not_supported}) {
    found->erase(std::unique(found->begin(), found->end(), SameDamage),
                 found->end());
  }
  return sum;
}

bool IsDamage(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
    case StatusCode::kPermissionDenied:
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kInternal:
      return false;
    default:
      return true;
  }
}

bool IsNotSupported(const Status& status) {
  return status.code() == StatusCode::kUnimplemented;
}

bool IsNotSupported(const LeafInfo& leaf) {
  return IsNotSupported(leaf.problem) ||
         (leaf.kind == ValueKind::kObject &&
          leaf.problem.code() == StatusCode::kPermissionDenied);
}

Status AddFinding(Damage finding, VerifyReport& report) {
  if (!IsDamage(finding.status)) {
    return finding.leaf.empty()
               ? finding.status
               : finding.status.WithContext("leaf " + finding.leaf);
  }
  std::vector<Damage>& found =
      IsNotSupported(finding.status) ? report.not_supported : report.damages;
  found.push_back(std::move(finding));
  return Status();
}

void SortFindings(VerifyReport& report) {
  for (std::vector<Damage>* found : {&report.damages, &report.not_supported}) {
    std::stable_sort(found->begin(), found->end(),
                     [](const Damage& a, const Damage& b) {
                       return std::tie(a.leaf, a.file, a.offset) <
                              std::tie(b.leaf, b.file, b.offset);
                     });
  }
}

}  // namespace holdfast
