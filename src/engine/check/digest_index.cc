#include "engine/check/digest_index.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "engine/format/directory_names.h"
#include "engine/format/part_file.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

// A file is summed in pieces of this size.
constexpr uint64_t kSumPieceBytes = 1 << 20;

Status SizeError(uint64_t got, uint64_t want) {
  return DataLossError("size differs from when it was saved (got " +
                       std::to_string(got) + " bytes, want " +
                       std::to_string(want) + ")");
}

Status CheckCrc(uint32_t got, uint32_t want) {
  if (got == want) return Status();
  return DataLossError("bytes differ from when they were saved (got crc32c " +
                       HexNumber(got, 8) + ", want " + HexNumber(want, 8) +
                       ")");
}

Status CheckContent(uint64_t byte_count, uint32_t crc,
                    std::string_view content) {
  if (content.size() != byte_count)
    return SizeError(content.size(), byte_count);
  return CheckCrc(Crc32c(content), crc);
}

// Returns the rows whose paths begin with `prefix`. `rows` are sorted by path.
template <typename Row>
std::span<const Row> RowsBelow(const std::vector<Row>& rows,
                               std::string_view prefix) {
  const auto first =
      std::partition_point(rows.begin(), rows.end(),
                           [&](const Row& row) { return row.path < prefix; });
  const auto last = std::partition_point(
      first, rows.end(),
      [&](const Row& row) { return row.path.starts_with(prefix); });
  return {first, last};
}

// Returns the same rows, with paths relative to `prefix`.
template <typename Row>
std::vector<Row> CutBelow(const std::vector<Row>& rows,
                          std::string_view prefix) {
  const std::span<const Row> below = RowsBelow(rows, prefix);
  std::vector<Row> cut(below.begin(), below.end());
  for (Row& row : cut) row.path.erase(0, prefix.size());
  return cut;
}

}  // namespace

Result<FileDigest> SumFile(Store& store, const std::string& path) {
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(path));
  FileDigest sum{path, info.byte_count, 0};
  Buffer piece(std::min(kSumPieceBytes, info.byte_count));
  for (uint64_t done = 0; done < info.byte_count;) {
    const size_t byte_count = std::min(kSumPieceBytes, info.byte_count - done);
    HF_RETURN_IF_ERROR(store.ReadInto(path, done, {piece.data(), byte_count}));
    sum.crc32c = ExtendCrc32c(sum.crc32c, {piece.data(), byte_count});
    done += byte_count;
  }
  return sum;
}

DigestIndex::DigestIndex(DigestFile digests) : digests_(std::move(digests)) {
  // Sorted by path and offset, so that lookups are binary searches and the rows
  // of a file are adjacent.
  std::sort(
      digests_.files.begin(), digests_.files.end(),
      [](const FileDigest& a, const FileDigest& b) { return a.path < b.path; });
  std::sort(
      digests_.sources.begin(), digests_.sources.end(),
      [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  std::sort(digests_.values.begin(), digests_.values.end(),
            [](const ValueDigest& a, const ValueDigest& b) {
              return std::tie(a.path, a.offset) < std::tie(b.path, b.offset);
            });
}

Result<std::optional<DigestIndex>> DigestIndex::Read(Store& store) {
  return ReadIfThere(store, kDigestFile, Parse);
}

Result<DigestIndex> DigestIndex::Parse(std::string_view text) {
  HF_ASSIGN_OR_RETURN(DigestFile digests, ParseDigestFile(text));
  return DigestIndex(std::move(digests));
}

std::span<const FileDigest> DigestIndex::FilesBelow(
    std::string_view prefix) const {
  return RowsBelow(digests_.files, prefix);
}

std::optional<DigestIndex> DigestIndex::Below(const std::string& prefix) const {
  DigestFile below{CutBelow(digests_.files, prefix),
                   CutBelow(digests_.values, prefix), digests_.block_bytes,
                   CutBelow(digests_.sources, prefix)};
  if (below.files.empty() && below.values.empty()) return std::nullopt;
  return DigestIndex(std::move(below));
}

const FileDigest* DigestIndex::FindFile(std::string_view path) const {
  const auto row =
      std::lower_bound(digests_.files.begin(), digests_.files.end(), path,
                       [](const FileDigest& row, std::string_view wanted) {
                         return row.path < wanted;
                       });
  return row != digests_.files.end() && row->path == path ? &*row : nullptr;
}

Status DigestIndex::CheckFile(std::string_view path,
                              std::string_view content) const {
  const FileDigest* row = FindFile(path);
  return row == nullptr ? Status() : CheckFile(*row, content);
}

std::span<const ValueDigest> DigestIndex::RowsOf(std::string_view path) const {
  struct Less {
    bool operator()(const ValueDigest& row, std::string_view wanted) const {
      return row.path < wanted;
    }
    bool operator()(std::string_view wanted, const ValueDigest& row) const {
      return wanted < row.path;
    }
  };
  const auto [first, last] = std::equal_range(
      digests_.values.begin(), digests_.values.end(), path, Less());
  return {first, last};
}

Status DigestIndex::CheckFile(const FileDigest& row, std::string_view content) {
  return CheckContent(row.byte_count, row.crc32c, content);
}

Status DigestIndex::CheckSum(const FileDigest& row, const FileDigest& got) {
  if (got.byte_count != row.byte_count) {
    return SizeError(got.byte_count, row.byte_count);
  }
  return CheckCrc(got.crc32c, row.crc32c);
}

const ValueDigest* DigestIndex::FindValue(std::string_view path,
                                          uint64_t offset) const {
  const std::pair wanted(path, offset);
  const auto row = std::lower_bound(
      digests_.values.begin(), digests_.values.end(), wanted,
      [](const ValueDigest& row, const auto& wanted) {
        return std::pair(std::string_view(row.path), row.offset) < wanted;
      });
  if (row == digests_.values.end() || row->path != path ||
      row->offset != offset) {
    return nullptr;
  }
  return &*row;
}

Status DigestIndex::CheckValue(const ValueDigest& row,
                               std::string_view content) {
  if (row.is_node() && content.size() == row.byte_count) {
    return CheckCrc(ManifestChecksum(content), row.crc32c);
  }
  return CheckContent(row.byte_count, row.crc32c, content);
}

}  // namespace holdfast
