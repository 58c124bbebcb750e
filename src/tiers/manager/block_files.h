// BlockFiles: a directory's files as one sequence of bytes, divided into
// blocks.
//
// Thread-safety: any thread may read; threads may write different ranges, but
// not while others read them. Ownership: owns its descriptors. Units: bytes.
// Errors: those of FileStore and PositionedFile; a file that is too short or
// missing is DataLoss.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/storage/file_store.h"
#include "stores/storage/positioned_file.h"
#include "tiers/manager/tier_record.h"

namespace holdfast {

class BlockFiles {
 public:
  BlockFiles(std::string directory, std::vector<TierFile> files,
             uint64_t block_bytes);

  uint64_t byte_count() const { return byte_count_; }
  uint64_t block_bytes() const { return block_bytes_; }
  int64_t block_count() const;
  // Returns the size of a block. The last block may be smaller than
  // block_bytes().
  uint64_t BytesOf(int64_t block) const;

  // Fills `target` from `offset`. OutOfRange beyond the end.
  Status Read(uint64_t offset, std::span<char> target);
  // Returns a block's CRC-32C. REQUIRES: `scratch` has room for the block.
  Result<uint32_t> SumBlock(int64_t block, std::span<char> scratch);
  // Like Read, but opens the files that hold the range instead of reading them.
  struct OpenPiece {
    std::shared_ptr<const OpenFile> file;
    uint64_t offset = 0;  // in the file
    uint64_t byte_count = 0;
  };
  Result<std::vector<OpenPiece>> OpenRange(uint64_t offset,
                                           uint64_t byte_count);
  // Writes a block. Creates the files that hold it, with their full size, if
  // needed.
  Status WriteBlock(int64_t block, std::string_view bytes);
  // Makes everything that was written durable, including names.
  Status Sync();

 private:
  // The part of a file that is inside a range.
  struct Piece {
    size_t file = 0;
    uint64_t offset = 0;  // in the file
    uint64_t byte_count = 0;
  };
  // Returns the pieces that make up a range. OutOfRange beyond the end.
  Result<std::vector<Piece>> PiecesOf(uint64_t offset,
                                      uint64_t byte_count) const;
  Result<PositionedFile*> OpenForWrite(size_t file);

  const std::string directory_;
  const std::vector<TierFile> files_;
  const uint64_t block_bytes_;
  std::vector<uint64_t> starts_;  // where each file starts in the sequence
  uint64_t byte_count_ = 0;
  FileStore store_;
  std::mutex mutex_;
  std::map<size_t, std::unique_ptr<PositionedFile>> written_;
};

// Returns the regular files below a directory, sorted by path, with their
// sizes, without the files in stores/storage/nobodys_files.h.
Result<std::vector<TierFile>> ListFiles(const std::string& directory);

// Calls `fn` for each of the blocks, `thread_count` at a time, with scratch
// memory for one block.
Status ForEachBlock(
    const std::vector<int64_t>& blocks, const BlockFiles& files,
    int thread_count,
    const std::function<Status(size_t index, std::span<char> bytes)>& fn);
// Returns 0, 1, … block_count - 1.
std::vector<int64_t> AllBlocks(int64_t block_count);

// Returns the CRC-32C of every block, using `thread_count` threads.
Result<std::vector<uint32_t>> SumBlocks(BlockFiles& files, int thread_count);
// Returns the blocks that cannot be read or whose checksum differs. `sums` has
// one checksum per block.
Result<std::vector<int64_t>> FindBadBlocks(BlockFiles& files,
                                           const std::vector<uint32_t>& sums,
                                           int thread_count);

}  // namespace holdfast
