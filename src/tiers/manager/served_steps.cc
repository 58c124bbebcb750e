#include "tiers/manager/served_steps.h"

#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "stores/storage/file_store.h"
#include "tiers/parity/stripe_layout.h"

namespace holdfast {
namespace {

uint64_t ParityBytesOf(const GroupRecord& group, int64_t member) {
  if (group.parity_count == 0) return 0;
  const auto layout = StripeLayout::Make(group.data_bytes(), group.parity_count,
                                         group.block_bytes);
  return layout.ok() ? layout->parity_bytes(member) : 0;
}

}  // namespace

std::string EncodeBlockRange(const BlockRange& range) {
  std::string bytes;
  PutString(bytes, DirectoryNameOf(range.member));
  PutVarint(bytes, static_cast<uint64_t>(range.kind));
  PutVarint(bytes, range.offset);
  PutVarint(bytes, range.byte_count);
  return bytes;
}

Result<BlockRange> DecodeBlockRange(std::string_view bytes) {
  Cursor cursor(bytes);
  std::string name;
  uint64_t kind = 0;
  BlockRange range;
  const bool is_read = ReadString(cursor, name) && ReadVarint64(cursor, kind) &&
                       ReadVarint64(cursor, range.offset) &&
                       ReadVarint64(cursor, range.byte_count) &&
                       cursor.remaining() == 0 && kind <= 1;
  const auto member = ParseDirectoryName(name);
  if (!is_read || !member) {
    return InvalidArgumentError("the request for blocks is malformed");
  }
  range.member = *member;
  range.kind = static_cast<BlockKind>(kind);
  return range;
}

std::shared_ptr<BlockFiles> ParityFilesOf(const std::string& directory,
                                          const GroupRecord& group,
                                          int64_t member) {
  const uint64_t byte_count = ParityBytesOf(group, member);
  return std::make_shared<BlockFiles>(
      directory,
      std::vector<TierFile>{{std::string(kTierParityFile), byte_count}},
      group.block_bytes);
}

Result<ServedSteps::Opened> ServedSteps::Open(const TierMember& member) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = opened_.find(member);
    if (found != opened_.end()) return found->second;
  }
  HF_ASSIGN_OR_RETURN(const Bytes bytes, ReadFile(member, kTierGroupFile));
  Result<GroupRecord> record = DecodeGroupRecord(bytes.view());
  const std::string path = steps_.PathOf(member);
  if (!record.ok()) return record.status().WithContext(path);
  Opened opened;
  opened.group = std::make_shared<const GroupRecord>(*std::move(record));
  const int64_t index = opened.group->IndexOf(member.rank);
  if (opened.group->step != member.step ||
      index == static_cast<int64_t>(opened.group->members.size())) {
    return DataLossError(path + ": its group record is of another step");
  }
  opened.data = std::make_shared<BlockFiles>(
      path + "/" + std::string(kTierFilesDirectory),
      opened.group->members[index].files, opened.group->block_bytes);
  opened.parity = ParityFilesOf(path, *opened.group, index);
  // If another thread was faster, its entry is used.
  const std::lock_guard lock(mutex_);
  return opened_.emplace(member, std::move(opened)).first->second;
}

Result<std::shared_ptr<const GroupRecord>> ServedSteps::GroupOf(
    const TierMember& member) {
  HF_ASSIGN_OR_RETURN(Opened opened, Open(member));
  return std::move(opened.group);
}

Result<std::shared_ptr<BlockFiles>> ServedSteps::DataOf(
    const TierMember& member) {
  HF_ASSIGN_OR_RETURN(Opened opened, Open(member));
  return std::move(opened.data);
}

Result<std::shared_ptr<BlockFiles>> ServedSteps::ParityOf(
    const TierMember& member) {
  HF_ASSIGN_OR_RETURN(Opened opened, Open(member));
  return std::move(opened.parity);
}

Result<std::shared_ptr<BlockFiles>> ServedSteps::FilesOf(
    const TierMember& member, BlockKind kind) {
  return kind == BlockKind::kData ? DataOf(member) : ParityOf(member);
}

Status ServedSteps::Read(const BlockRange& range, std::span<char> target) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<BlockFiles> files,
                      FilesOf(range.member, range.kind));
  return files->Read(range.offset, target);
}

Result<Bytes> ServedSteps::ReadFile(const TierMember& member,
                                    std::string_view name) {
  FileStore store(steps_.PathOf(member));
  return store.Read(name);
}

void ServedSteps::Forget(const TierMember& member) {
  const std::lock_guard lock(mutex_);
  opened_.erase(member);
}

}  // namespace holdfast
