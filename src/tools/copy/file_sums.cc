#include "tools/copy/file_sums.h"

#include <algorithm>

#include "engine/format/digest_file.h"
#include "engine/format/directory_names.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "stores/place/well_known_names.h"
#include "stores/storage/url_path.h"
#include "tools/copy/copy_files.h"

namespace holdfast {
namespace {

Status SizeError(const std::string& place, uint64_t got, uint64_t want) {
  return DataLossError(place + ": size differs from when it was saved (got " +
                       std::to_string(got) + " bytes, want " +
                       std::to_string(want) + ")");
}

// Adds a range to `sums`. Returns DataLoss if the listing contradicts it.
// `is_whole` means that the range is the complete file.
Status AddRange(const TreeListing& listing, const std::string& name,
                const SummedRange& range, bool is_whole, ListedSums& sums) {
  const ListedFile* const file = listing.Find(name);
  const std::string place = listing.place.path() + "/" + name;
  // The marker may be missing, because other tools do not copy it. Every copy
  // gets its own.
  if (file == nullptr && FileNameOf("/" + name) == kCommitMarkerFile) {
    return Status();
  }
  if (file == nullptr) {
    return DataLossError(place +
                         ": the file is missing, and the checkpoint was saved "
                         "with it");
  }
  if (file->byte_count < range.end ||
      (is_whole && file->byte_count != range.end)) {
    return SizeError(place, file->byte_count, range.end);
  }
  sums[name].push_back(range);
  return Status();
}

Status AddDigests(const TreeListing& listing, const std::string& directory,
                  const DigestFile& digests, ListedSums& sums) {
  for (const FileDigest& row : digests.files) {
    HF_RETURN_IF_ERROR(AddRange(listing, directory + row.path,
                                {0, row.byte_count, row.crc32c},
                                /*is_whole=*/true, sums));
  }
  for (const ValueDigest& row : digests.values) {
    const uint64_t summed_bytes = row.byte_count - (row.is_node() ? 4 : 0);
    HF_RETURN_IF_ERROR(
        AddRange(listing, directory + row.path,
                 {row.offset, row.offset + summed_bytes, row.crc32c},
                 /*is_whole=*/false, sums));
  }
  return Status();
}

// Checks that a file outside databases that holds one value has exactly the
// value's size, because appended bytes would make the copy unreadable.
Status CheckOneValue(const TreeListing& listing, const std::string& name,
                     const std::vector<SummedRange>& ranges) {
  const bool is_in_database =
      FileNameOf(ParentDirectory("/" + name)) == kDataDirectory;
  if (ranges.size() != 1 || ranges[0].begin != 0 || is_in_database) {
    return Status();
  }
  const ListedFile* const file = listing.Find(name);
  if (file == nullptr || file->byte_count == ranges[0].end) return Status();
  return SizeError(listing.place.path() + "/" + name, file->byte_count,
                   ranges[0].end);
}

}  // namespace

Result<ListedSums> ReadListedSums(const TreeListing& listing) {
  ListedSums sums;
  for (const ListedFile& file : listing.files) {
    if (FileNameOf("/" + file.name) != kDigestFile) continue;
    HF_ASSIGN_OR_RETURN(const std::string text, ReadListedFile(listing, file));
    const Result<DigestFile> digests = ParseDigestFile(text);
    if (!digests.ok()) {
      return digests.status().WithContext(listing.PathOf(file));
    }
    HF_RETURN_IF_ERROR(AddDigests(
        listing, file.name.substr(0, file.name.size() - kDigestFile.size()),
        *digests, sums));
  }
  for (auto& [name, ranges] : sums) {
    std::sort(ranges.begin(), ranges.end(),
              [](const SummedRange& a, const SummedRange& b) {
                return a.end < b.end;
              });
    HF_RETURN_IF_ERROR(CheckOneValue(listing, name, ranges));
  }
  return sums;
}

void FileSums::Add(uint64_t offset, std::string_view piece) {
  const uint64_t end = offset + piece.size();
  auto range = std::partition_point(
      ranges_.begin(), ranges_.end(),
      [&](const SummedRange& range) { return range.end <= offset; });
  for (; range != ranges_.end(); ++range) {
    const uint64_t from = std::max(offset, range->begin);
    const uint64_t to = std::min(end, range->end);
    if (from >= to) continue;
    const Part part{from, to - from,
                    Crc32c(piece.substr(from - offset, to - from))};
    const std::lock_guard lock(mutex_);
    parts_[static_cast<size_t>(range - ranges_.begin())].push_back(part);
  }
}

Status FileSums::Check(const std::string& path) {
  for (size_t i = 0; i < ranges_.size(); ++i) {
    std::sort(parts_[i].begin(), parts_[i].end(),
              [](const Part& a, const Part& b) { return a.offset < b.offset; });
    uint32_t crc = 0;
    for (const Part& part : parts_[i]) {
      crc = JoinCrc32c(crc, part.crc32c, part.byte_count);
    }
    if (crc == ranges_[i].crc32c) continue;
    return DataLossError(path + " at " + std::to_string(ranges_[i].begin) +
                         ": bytes differ from when they were saved");
  }
  return Status();
}

}  // namespace holdfast
