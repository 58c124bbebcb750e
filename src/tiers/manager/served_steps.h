// ServedSteps: the blocks that this host holds, opened once for the host itself
// and for peers that request blocks.
//
// Thread-safety: any thread. Ownership: borrows the LocalSteps.
// Errors: NotFound (this host has no such step), DataLoss (its records are
// damaged), those of BlockFiles.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "ground/base/bytes.h"
#include "tiers/manager/block_files.h"
#include "tiers/manager/local_steps.h"
#include "tiers/manager/tier_record.h"

namespace holdfast {

enum class BlockKind : uint8_t { kData = 0, kParity = 1 };

// A range of a member's data or parity, on any host.
struct BlockRange {
  TierMember member;
  BlockKind kind = BlockKind::kData;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};
std::string EncodeBlockRange(const BlockRange& range);
Result<BlockRange> DecodeBlockRange(std::string_view bytes);

class ServedSteps {
 public:
  explicit ServedSteps(const LocalSteps& steps) : steps_(steps) {}

  Result<std::shared_ptr<const GroupRecord>> GroupOf(const TierMember& member);
  Result<std::shared_ptr<BlockFiles>> DataOf(const TierMember& member);
  Result<std::shared_ptr<BlockFiles>> ParityOf(const TierMember& member);
  Result<std::shared_ptr<BlockFiles>> FilesOf(const TierMember& member,
                                              BlockKind kind);
  // Reads a range. Checks no checksum, since the caller does.
  Status Read(const BlockRange& range, std::span<char> target);
  // Reads a file directly in the step's directory.
  Result<Bytes> ReadFile(const TierMember& member, std::string_view name);
  // Forgets a step whose files have changed or were removed.
  void Forget(const TierMember& member);

 private:
  struct Opened {
    std::shared_ptr<const GroupRecord> group;
    std::shared_ptr<BlockFiles> data;
    std::shared_ptr<BlockFiles> parity;
  };
  Result<Opened> Open(const TierMember& member);

  const LocalSteps& steps_;
  std::mutex mutex_;
  std::map<TierMember, Opened> opened_;
};

// Returns a member's parity file as blocks.
std::shared_ptr<BlockFiles> ParityFilesOf(const std::string& directory,
                                          const GroupRecord& group,
                                          int64_t member);

}  // namespace holdfast
