#include "tiers/manager/tier_record.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "stores/storage/store.h"

namespace holdfast {
namespace {

constexpr std::string_view kGroupMagic = "holdfast tier group 1\n";
constexpr std::string_view kMemberMagic = "holdfast tier member 1\n";
constexpr std::string_view kSumsMagic = "holdfast tier sums 1\n";
constexpr size_t kSaveIdSize = 32;

Status NoRecord(std::string_view what) {
  return DataLossError("tier record: " + std::string(what));
}

void AppendSum(std::string& bytes) { PutU32Little(bytes, Crc32c(bytes)); }

// Returns the bytes between the magic and the checksum.
Result<std::string_view> BodyOf(std::string_view bytes,
                                std::string_view magic) {
  if (!bytes.starts_with(magic) || bytes.size() < magic.size() + 4) {
    return NoRecord("got other bytes, want \"" +
                    std::string(magic.substr(0, magic.size() - 1)) + "\"");
  }
  const std::string_view content = bytes.substr(0, bytes.size() - 4);
  if (Crc32c(content) != LoadLittle<uint32_t>(bytes.data() + content.size())) {
    return NoRecord("its checksum differs");
  }
  return content.substr(magic.size());
}

// Reads a count of items that take at least `bytes_min` bytes each. Fails if
// the remaining bytes cannot hold that many.
bool ReadCount(Cursor& cursor, uint64_t bytes_min, uint64_t& count) {
  return ReadVarint64(cursor, count) && count <= cursor.remaining() / bytes_min;
}

void PutSums(std::string& out, const std::vector<uint32_t>& sums) {
  PutVarint(out, sums.size());
  for (const uint32_t sum : sums) PutU32Little(out, sum);
}

bool ReadSums(Cursor& cursor, std::vector<uint32_t>& sums) {
  uint64_t count = 0;
  if (!ReadCount(cursor, sizeof(uint32_t), count)) return false;
  sums.resize(count);
  return std::all_of(sums.begin(), sums.end(),
                     [&](uint32_t& sum) { return cursor.ReadU32Little(sum); });
}

void PutFiles(std::string& out, const std::vector<TierFile>& files) {
  PutVarint(out, files.size());
  for (const TierFile& file : files) {
    PutString(out, file.path);
    PutVarint(out, file.byte_count);
  }
}

void PutMember(std::string& out, const MemberRecord& record) {
  PutFiles(out, record.files);
  PutSums(out, record.block_sums);
}

bool ReadFiles(Cursor& cursor, std::vector<TierFile>& files) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 62;
  uint64_t count = 0;
  if (!ReadCount(cursor, 2, count)) return false;
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) {
    TierFile file;
    if (!ReadString(cursor, file.path) ||
        cursor.ReadVarint(kBytesMax, file.byte_count) !=
            Cursor::VarintResult::kOk) {
      return false;
    }
    total += file.byte_count;
    if (total > kBytesMax || !CheckKey(file.path).ok()) return false;
    if (!files.empty() && files.back().path >= file.path) return false;
    files.push_back(std::move(file));
  }
  return true;
}

bool ReadMember(Cursor& cursor, uint64_t block_bytes, MemberRecord& record) {
  if (!ReadFiles(cursor, record.files) ||
      !ReadSums(cursor, record.block_sums)) {
    return false;
  }
  const uint64_t byte_count = record.byte_count();
  return record.block_sums.size() ==
         byte_count / block_bytes + (byte_count % block_bytes != 0);
}

bool ReadGroups(Cursor& cursor, std::vector<std::vector<int64_t>>& groups) {
  uint64_t group_count = 0;
  if (!ReadCount(cursor, 2, group_count)) return false;
  for (uint64_t i = 0; i < group_count; ++i) {
    uint64_t count = 0;
    if (!ReadCount(cursor, 1, count)) return false;
    std::vector<int64_t>& group = groups.emplace_back();
    for (uint64_t j = 0; j < count; ++j) {
      uint64_t rank = 0;
      if (!ReadVarint64(cursor, rank)) return false;
      group.push_back(static_cast<int64_t>(rank));
    }
  }
  return AreGroups(groups);
}

bool ReadStep(Cursor& cursor, TierStep& step) {
  uint64_t number = 0;
  if (!ReadVarint64(cursor, step.epoch) || !ReadVarint64(cursor, number) ||
      !ReadString(cursor, step.save_id)) {
    return false;
  }
  step.step = static_cast<int64_t>(number);
  return step.step >= 0 && step.save_id.size() == kSaveIdSize;
}

bool ReadHosts(Cursor& cursor, std::vector<std::string>& hosts) {
  uint64_t count = 0;
  if (!ReadCount(cursor, 1, count)) return false;
  hosts.resize(count);
  return std::all_of(hosts.begin(), hosts.end(), [&](std::string& host) {
    return ReadString(cursor, host);
  });
}

bool ReadGroup(Cursor& cursor, GroupRecord& record) {
  uint64_t parity_count = 0;
  uint64_t group = 0;
  if (!ReadStep(cursor, record.step) || !ReadString(cursor, record.item) ||
      !ReadVarint64(cursor, record.block_bytes) || record.block_bytes == 0 ||
      !ReadVarint64(cursor, parity_count) ||
      !ReadGroups(cursor, record.groups) || !ReadVarint64(cursor, group) ||
      group >= record.groups.size() || !ReadHosts(cursor, record.hosts)) {
    return false;
  }
  record.group = static_cast<int64_t>(group);
  uint64_t rank_count = 0;
  for (const auto& ranks : record.groups) rank_count += ranks.size();
  if (record.hosts.size() != rank_count) return false;
  if (parity_count > 0 && parity_count >= record.ranks().size()) return false;
  record.parity_count = static_cast<int64_t>(parity_count);
  for (size_t i = 0; i < record.ranks().size(); ++i) {
    if (!ReadMember(cursor, record.block_bytes,
                    record.members.emplace_back())) {
      return false;
    }
  }
  return cursor.remaining() == 0;
}

template <typename Number>
bool TakeNumber(std::string_view& text, Number& number) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return false;
  text.remove_prefix(end - text.data());
  return true;
}

bool TakeText(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::string DirectoryNameOf(const TierMember& member) {
  return std::to_string(member.step.step) + "." +
         std::to_string(member.step.epoch) + "." + member.step.save_id + ".r" +
         std::to_string(member.rank);
}

std::optional<TierMember> ParseDirectoryName(std::string_view name) {
  TierMember member;
  std::string_view rest = name;
  if (!TakeNumber(rest, member.step.step) || !TakeText(rest, ".") ||
      !TakeNumber(rest, member.step.epoch) || !TakeText(rest, ".") ||
      rest.size() < kSaveIdSize) {
    return std::nullopt;
  }
  member.step.save_id = rest.substr(0, kSaveIdSize);
  rest.remove_prefix(kSaveIdSize);
  if (!TakeText(rest, ".r") || !TakeNumber(rest, member.rank)) {
    return std::nullopt;
  }
  if (DirectoryNameOf(member) != name || member.rank < 0 ||
      member.step.step < 0) {
    return std::nullopt;
  }
  return member;
}

uint64_t MemberRecord::byte_count() const {
  uint64_t total = 0;
  for (const TierFile& file : files) total += file.byte_count;
  return total;
}

bool AreGroups(const std::vector<std::vector<int64_t>>& groups) {
  std::set<int64_t> ranks;
  uint64_t total = 0;
  for (const std::vector<int64_t>& group : groups) {
    if (group.empty()) return false;
    ranks.insert(group.begin(), group.end());
    total += group.size();
  }
  return !ranks.empty() && ranks.size() == total && *ranks.begin() == 0 &&
         static_cast<uint64_t>(*ranks.rbegin()) == total - 1;
}

std::string EncodeMemberRecord(const MemberRecord& record) {
  std::string bytes(kMemberMagic);
  PutMember(bytes, record);
  AppendSum(bytes);
  return bytes;
}

Result<MemberRecord> DecodeMemberRecord(std::string_view bytes,
                                        uint64_t block_bytes) {
  HF_ASSIGN_OR_RETURN(const std::string_view body, BodyOf(bytes, kMemberMagic));
  Cursor cursor(body);
  MemberRecord record;
  if (!ReadMember(cursor, block_bytes, record) || cursor.remaining() != 0) {
    return NoRecord("a member's files and sums do not fit together");
  }
  return record;
}

std::vector<uint64_t> GroupRecord::data_bytes() const {
  std::vector<uint64_t> counts;
  for (const MemberRecord& member : members) {
    counts.push_back(member.byte_count());
  }
  return counts;
}

int64_t GroupRecord::IndexOf(int64_t rank) const {
  return std::find(ranks().begin(), ranks().end(), rank) - ranks().begin();
}

std::string EncodeGroupRecord(const GroupRecord& record) {
  std::string bytes(kGroupMagic);
  PutVarint(bytes, record.step.epoch);
  PutVarint(bytes, record.step.step);
  PutString(bytes, record.step.save_id);
  PutString(bytes, record.item);
  PutVarint(bytes, record.block_bytes);
  PutVarint(bytes, record.parity_count);
  PutVarint(bytes, record.groups.size());
  for (const auto& group : record.groups) {
    PutVarint(bytes, group.size());
    for (const int64_t rank : group) PutVarint(bytes, rank);
  }
  PutVarint(bytes, record.group);
  PutVarint(bytes, record.hosts.size());
  for (const std::string& host : record.hosts) PutString(bytes, host);
  for (const MemberRecord& member : record.members) PutMember(bytes, member);
  AppendSum(bytes);
  return bytes;
}

Result<GroupRecord> DecodeGroupRecord(std::string_view bytes) {
  HF_ASSIGN_OR_RETURN(const std::string_view body, BodyOf(bytes, kGroupMagic));
  Cursor cursor(body);
  GroupRecord record;
  if (!ReadGroup(cursor, record)) {
    return NoRecord("a group's parts do not fit together");
  }
  return record;
}

std::string EncodeFileList(const std::vector<TierFile>& files) {
  std::string bytes;
  PutFiles(bytes, files);
  return bytes;
}

Result<std::vector<TierFile>> DecodeFileList(std::string_view bytes) {
  Cursor cursor(bytes);
  std::vector<TierFile> files;
  if (!ReadFiles(cursor, files) || cursor.remaining() != 0) {
    return NoRecord("the list of files is malformed");
  }
  return files;
}

std::string EncodeSums(const std::vector<uint32_t>& sums) {
  std::string bytes(kSumsMagic);
  PutSums(bytes, sums);
  AppendSum(bytes);
  return bytes;
}

Result<std::vector<uint32_t>> DecodeSums(std::string_view bytes) {
  HF_ASSIGN_OR_RETURN(const std::string_view body, BodyOf(bytes, kSumsMagic));
  Cursor cursor(body);
  std::vector<uint32_t> sums;
  if (!ReadSums(cursor, sums) || cursor.remaining() != 0) {
    return NoRecord("the sums are cut short");
  }
  return sums;
}

}  // namespace holdfast
