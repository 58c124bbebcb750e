#include "tiers/manager/block_files.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "ground/base/bytes.h"
#include "ground/base/crc32c.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "stores/place/make_directories.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/nobodys_files.h"

namespace holdfast {
namespace {

// How many bytes are read and summed at a time, so that they stay in the
// nearest caches.
constexpr uint64_t kSummedBytes = 128 << 10;

Status ShorterIsLost(const Status& status) {
  const bool is_shorter = status.code() == StatusCode::kNotFound ||
                          status.code() == StatusCode::kOutOfRange;
  return is_shorter ? DataLossError(std::string(status.message())) : status;
}

}  // namespace

BlockFiles::BlockFiles(std::string directory, std::vector<TierFile> files,
                       uint64_t block_bytes)
    : directory_(std::move(directory)),
      files_(std::move(files)),
      block_bytes_(block_bytes),
      store_(directory_) {
  for (const TierFile& file : files_) {
    starts_.push_back(byte_count_);
    byte_count_ += file.byte_count;
  }
}

int64_t BlockFiles::block_count() const {
  return static_cast<int64_t>(byte_count_ / block_bytes_ +
                              (byte_count_ % block_bytes_ != 0));
}

uint64_t BlockFiles::BytesOf(int64_t block) const {
  return std::min(block_bytes_, byte_count_ - block * block_bytes_);
}

Result<std::vector<BlockFiles::Piece>> BlockFiles::PiecesOf(
    uint64_t offset, uint64_t byte_count) const {
  // The first comparison keeps the subtraction in the second from wrapping.
  if (offset > byte_count_ || byte_count > byte_count_ - offset) {
    return OutOfRangeError("blocks of " + directory_ + ": " +
                           std::to_string(byte_count) + " bytes at offset " +
                           std::to_string(offset) + " are past the end (" +
                           std::to_string(byte_count_) + " bytes)");
  }
  std::vector<Piece> pieces;
  // An empty file starts where the next file starts. This finds the last file
  // that starts at or before `offset`.
  size_t file = std::upper_bound(starts_.begin(), starts_.end(), offset) -
                starts_.begin() - 1;
  while (byte_count > 0) {
    const uint64_t begin = offset - starts_[file];
    const uint64_t count =
        std::min(byte_count, files_[file].byte_count - begin);
    if (count > 0) pieces.push_back({file, begin, count});
    offset += count;
    byte_count -= count;
    ++file;
  }
  return pieces;
}

Status BlockFiles::Read(uint64_t offset, std::span<char> target) {
  HF_ASSIGN_OR_RETURN(const auto pieces, PiecesOf(offset, target.size()));
  for (const Piece& piece : pieces) {
    HF_RETURN_IF_ERROR(
        ShorterIsLost(store_.ReadInto(files_[piece.file].path, piece.offset,
                                      target.first(piece.byte_count))));
    target = target.subspan(piece.byte_count);
  }
  return Status();
}

Result<std::vector<BlockFiles::OpenPiece>> BlockFiles::OpenRange(
    uint64_t offset, uint64_t byte_count) {
  HF_ASSIGN_OR_RETURN(const auto pieces, PiecesOf(offset, byte_count));
  std::vector<OpenPiece> opened;
  for (const Piece& piece : pieces) {
    const std::string& path = files_[piece.file].path;
    auto object = store_.OpenForRead(path);
    HF_RETURN_IF_ERROR(ShorterIsLost(object.status()));
    HF_RETURN_IF_ERROR(
        ShorterIsLost(ResolveRange({piece.offset, piece.byte_count},
                                   object->byte_count, store_.Describe(path))
                          .status()));
    opened.push_back({std::move(object->file), piece.offset, piece.byte_count});
  }
  return opened;
}

Result<uint32_t> BlockFiles::SumBlock(int64_t block, std::span<char> scratch) {
  uint32_t sum = 0;
  uint64_t left_bytes = BytesOf(block);
  for (uint64_t offset = block * block_bytes_; left_bytes > 0;) {
    const auto part = scratch.first(std::min(left_bytes, kSummedBytes));
    HF_RETURN_IF_ERROR(Read(offset, part));
    sum = ExtendCrc32c(sum, {part.data(), part.size()});
    offset += part.size();
    left_bytes -= part.size();
  }
  return sum;
}

Result<PositionedFile*> BlockFiles::OpenForWrite(size_t file) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<PositionedFile>& opened = written_[file];
  if (opened == nullptr) {
    const std::filesystem::path path =
        std::filesystem::path(directory_) / files_[file].path;
    HF_RETURN_IF_ERROR(
        MakeDirectories(path.parent_path().string(), std::nullopt));
    HF_ASSIGN_OR_RETURN(
        opened, PositionedFile::Open(path.string(), files_[file].byte_count,
                                     /*keep=*/true));
  }
  return opened.get();
}

Status BlockFiles::WriteBlock(int64_t block, std::string_view bytes) {
  HF_ASSIGN_OR_RETURN(const auto pieces,
                      PiecesOf(block * block_bytes_, bytes.size()));
  for (const Piece& piece : pieces) {
    HF_ASSIGN_OR_RETURN(PositionedFile * file, OpenForWrite(piece.file));
    HF_RETURN_IF_ERROR(
        file->WriteAt(piece.offset, bytes.substr(0, piece.byte_count)));
    bytes.remove_prefix(piece.byte_count);
  }
  return Status();
}

Status BlockFiles::Sync() {
  for (size_t i = 0; i < files_.size(); ++i) {
    // A file without bytes has no blocks, so it is created here.
    if (files_[i].byte_count == 0) {
      HF_RETURN_IF_ERROR(OpenForWrite(i).status());
    }
  }
  for (const auto& [index, file] : written_) {
    HF_RETURN_IF_ERROR(file->Sync());
  }
  if (written_.empty()) return Status();
  written_.clear();
  HF_ASSIGN_OR_RETURN(const local::DirectoryTree tree,
                      local::ListTree(directory_));
  for (const std::string& name : tree.directories) {
    HF_RETURN_IF_ERROR(local::SyncDirectory(directory_ + "/" + name));
  }
  return local::SyncDirectory(directory_);
}

Result<std::vector<TierFile>> ListFiles(const std::string& directory) {
  FileStore store(directory);
  std::vector<TierFile> files;
  HF_RETURN_IF_ERROR(
      store.List("", [&](std::string_view key, const ObjectInfo& info) {
        if (IsNobodysPath(key)) return Status();
        files.push_back({std::string(key), info.byte_count});
        return Status();
      }));
  return files;
}

Status ForEachBlock(
    const std::vector<int64_t>& blocks, const BlockFiles& files,
    int thread_count,
    const std::function<Status(size_t index, std::span<char> bytes)>& fn) {
  Executor executor(thread_count);
  std::vector<Buffer> scratch(executor.thread_count());
  return executor.ParallelFor(blocks.size(), [&](size_t i, int worker) {
    scratch[worker].Reserve(files.block_bytes());
    return fn(i, {scratch[worker].data(), files.BytesOf(blocks[i])});
  });
}

std::vector<int64_t> AllBlocks(int64_t block_count) {
  std::vector<int64_t> blocks(block_count);
  std::iota(blocks.begin(), blocks.end(), int64_t{0});
  return blocks;
}

Result<std::vector<uint32_t>> SumBlocks(BlockFiles& files, int thread_count) {
  const std::vector<int64_t> blocks = AllBlocks(files.block_count());
  std::vector<uint32_t> sums(blocks.size());
  HF_RETURN_IF_ERROR(ForEachBlock(
      blocks, files, thread_count, [&](size_t i, std::span<char> bytes) {
        HF_ASSIGN_OR_RETURN(sums[i], files.SumBlock(blocks[i], bytes));
        return Status();
      }));
  return sums;
}

Result<std::vector<int64_t>> FindBadBlocks(BlockFiles& files,
                                           const std::vector<uint32_t>& sums,
                                           int thread_count) {
  std::vector<int64_t> blocks = AllBlocks(files.block_count());
  std::vector<char> is_bad(blocks.size());
  HF_RETURN_IF_ERROR(ForEachBlock(
      blocks, files, thread_count, [&](size_t i, std::span<char> bytes) {
        // An unreadable block counts as lost, whatever the reason.
        const Result<uint32_t> sum = files.SumBlock(blocks[i], bytes);
        is_bad[i] = !sum.ok() || *sum != sums[i];
        return Status();
      }));
  std::erase_if(blocks, [&](int64_t block) { return !is_bad[block]; });
  return blocks;
}

}  // namespace holdfast
