// Encodes and parses the records that a host keeps about a step of the local
// tier.
//
//   `<step>.<epoch>.<save id>.r<rank>/`  the part of rank `rank` of the save
//     files/…    its part of the checkpoint, as SaveItemPart writes it
//     group      GroupRecord: the same on all members of a parity group
//     parity     the parity blocks that this member holds
//     sums       their checksums
//     protected  empty: every group of the save has its parity
//
// A record is a magic line, varints, strings, little-endian CRC-32Cs, and the
// CRC-32C of all these bytes.
// Thread-safety: values, pure functions. Units: bytes.
// Errors: DataLoss for bytes that are not a record. No more memory is allocated
// than the bytes justify.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// The identity of a save. Saves are ordered by time: a later manager's save is
// newer, whatever its step number (tiered_manager.h).
struct TierStep {
  uint64_t epoch = 0;
  int64_t step = 0;
  std::string save_id;  // 32 hex digits

  auto operator<=>(const TierStep&) const = default;
};

// The part that one rank wrote in a save.
struct TierMember {
  TierStep step;
  int64_t rank = 0;

  auto operator<=>(const TierMember&) const = default;
};
std::string DirectoryNameOf(const TierMember& member);
// Returns the member with this directory name; nullopt for names that
// DirectoryNameOf does not return.
std::optional<TierMember> ParseDirectoryName(std::string_view name);

struct TierFile {
  std::string path;  // below files/
  uint64_t byte_count = 0;
};

// A member's files form one sequence of bytes, in the order of their paths,
// divided into blocks of GroupRecord::block_bytes.
struct MemberRecord {
  std::vector<TierFile> files;
  std::vector<uint32_t> block_sums;  // CRC-32C; one per block

  uint64_t byte_count() const;
};
std::string EncodeMemberRecord(const MemberRecord& record);
Result<MemberRecord> DecodeMemberRecord(std::string_view bytes,
                                        uint64_t block_bytes);

// Returns whether every rank from 0 to the highest is in exactly one group.
bool AreGroups(const std::vector<std::vector<int64_t>>& groups);

struct GroupRecord {
  TierStep step;
  std::string item;  // the directory of the tree, below files/
  uint64_t block_bytes = 0;
  int64_t parity_count = 0;
  // All groups of the save. Each lists its members' ranks in the save, in
  // member order.
  std::vector<std::vector<int64_t>> groups;
  int64_t group = 0;                  // the index of this group
  std::vector<std::string> hosts;     // by rank in the save; for messages
  std::vector<MemberRecord> members;  // of this group

  const std::vector<int64_t>& ranks() const { return groups[group]; }
  std::vector<uint64_t> data_bytes() const;
  // Returns the index of a rank's member in the group. REQUIRES: the rank is in
  // this group.
  int64_t IndexOf(int64_t rank) const;
};
std::string EncodeGroupRecord(const GroupRecord& record);
Result<GroupRecord> DecodeGroupRecord(std::string_view bytes);

// Encodes one member's file list without a checksum, for messages between
// ranks.
std::string EncodeFileList(const std::vector<TierFile>& files);
Result<std::vector<TierFile>> DecodeFileList(std::string_view bytes);

std::string EncodeSums(const std::vector<uint32_t>& sums);
Result<std::vector<uint32_t>> DecodeSums(std::string_view bytes);

inline constexpr std::string_view kTierFilesDirectory = "files";
inline constexpr std::string_view kTierGroupFile = "group";
inline constexpr std::string_view kTierParityFile = "parity";
inline constexpr std::string_view kTierSumsFile = "sums";
inline constexpr std::string_view kTierProtectedFile = "protected";

}  // namespace holdfast
