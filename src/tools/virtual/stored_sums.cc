#include "tools/virtual/stored_sums.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "engine/check/row_checker.h"
#include "engine/format/directory_names.h"
#include "formats/ocdbt/database.h"
#include "ground/base/bytes.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "holdfast/checkpoint.h"
#include "stores/place/directory_ops.h"
#include "stores/place/well_known_names.h"
#include "stores/storage/read_only_store.h"
#include "stores/storage/url_path.h"
#include "tools/copy/copy_files.h"

namespace holdfast {
namespace {

constexpr uint64_t kCrcBytes = sizeof(uint32_t);

Status DiffersAt(uint64_t offset, uint32_t got, uint32_t want) {
  return DataLossError("at " + std::to_string(offset) +
                       ": bytes differ from when they were saved (got "
                       "checksum " +
                       HexNumber(got, 8) + ", want " + HexNumber(want, 8) +
                       ")");
}

Status GoneError(const std::string& path) {
  return DataLossError(path + " is gone: " + std::string(kDigestFile) +
                       " says that the checkpoint was saved with it");
}

uint32_t LittleEndian(std::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return number;
}

// Forwards reads, and records the ranges that were read of each file.
class RangeRecorder final : public ReadOnlyStore {
 public:
  explicit RangeRecorder(std::shared_ptr<Store> inner)
      : inner_(std::move(inner)) {}

  using Ranges = std::set<std::pair<uint64_t, uint64_t>>;  // offset and size
  const std::map<std::string, Ranges>& ranges() const { return ranges_; }

  std::string Describe(std::string_view key) const override {
    return inner_->Describe(key);
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    return inner_->Stat(key);
  }
  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    Result<Bytes> bytes = inner_->Read(key, range);
    if (bytes.ok()) Note(key, range.offset, bytes->size());
    return bytes;
  }
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    Note(key, offset, target.size());
    return inner_->ReadInto(key, offset, target);
  }
  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    return inner_->List(prefix, fn);
  }

 private:
  void Note(std::string_view key, uint64_t offset, uint64_t byte_count) {
    const std::lock_guard lock(mutex_);
    ranges_[std::string(key)].emplace(offset, byte_count);
  }

  const std::shared_ptr<Store> inner_;
  std::mutex mutex_;
  std::map<std::string, Ranges> ranges_;
};

bool IsInDatabase(const std::string& name) {
  return FileNameOf(ParentDirectory("/" + name)) == kDataDirectory;
}

}  // namespace

Result<std::unique_ptr<const StoredSums>> StoredSums::Read(
    const TreeListing& listing) {
  auto sums = std::make_unique<StoredSums>();
  for (const ListedFile& file : listing.files) {
    if (FileNameOf("/" + file.name) != kDigestFile) continue;
    HF_RETURN_IF_ERROR(sums->AddList(listing, file));
  }
  sums->FindGone(listing);
  if (sums->is_empty())
    return std::unique_ptr<const StoredSums>(std::move(sums));
  for (const ListedFile& file : listing.files) {
    if (FileNameOf("/" + file.name) != kManifestFile) continue;
    HF_RETURN_IF_ERROR(sums->AddNodes(listing, file));
  }
  return std::unique_ptr<const StoredSums>(std::move(sums));
}

Result<std::unique_ptr<const StoredSums>> StoredSums::Sum(
    const TreeListing& listing) {
  auto sums = std::make_unique<StoredSums>();
  for (const ListedFile& file : listing.files) {
    HF_ASSIGN_OR_RETURN(const auto reader, OpenListedFile(listing, file));
    const auto read = [&](uint64_t offset, std::span<char> target) {
      return reader->Read(offset, target);
    };
    Row row;
    row.end = file.byte_count;
    row.block_bytes = kDigestBlockBytes;
    uint32_t tail = 0;
    HF_ASSIGN_OR_RETURN(std::vector<uint32_t> blocks,
                        SumBlocks(row, read, row.crc32c, tail));
    row.blocks =
        std::make_shared<const std::vector<uint32_t>>(std::move(blocks));
    sums->files_[file.name].lists.push_back({std::move(row)});
  }
  return std::unique_ptr<const StoredSums>(std::move(sums));
}

Status StoredSums::AddList(const TreeListing& listing, const ListedFile& list) {
  HF_ASSIGN_OR_RETURN(const std::string text, ReadListedFile(listing, list));
  Result<DigestFile> digests = ParseDigestFile(text);
  if (!digests.ok()) return digests.status().WithContext(listing.PathOf(list));
  const std::string directory =
      list.name.substr(0, list.name.size() - kDigestFile.size());
  // The list itself must be served as it was parsed, so add a checksum of these
  // bytes.
  AddWhole(list.name, text.size(), Crc32c(text));
  for (const FileDigest& row : digests->files) {
    AddWhole(directory + row.path, row.byte_count, row.crc32c);
  }
  AddValues(directory, *std::move(digests));
  return Status();
}

void StoredSums::AddWhole(const std::string& name, uint64_t byte_count,
                          uint32_t crc32c) {
  File& file = files_[name];
  Row row;
  row.end = byte_count;
  row.crc32c = crc32c;
  row.block_bytes = kDigestBlockBytes;
  file.lists.emplace_back().push_back(std::move(row));
  file.byte_count = byte_count;
  file.end = std::max(file.end, byte_count);
}

void StoredSums::AddValues(const std::string& directory, DigestFile digests) {
  std::map<std::string, std::vector<Row>> rows;
  for (ValueDigest& value : digests.values) {
    Row row;
    row.begin = value.offset;
    row.end = EndOf(value);
    row.crc32c = value.crc32c;
    row.tail = value.tail;
    row.is_node = value.is_node() && value.byte_count >= kCrcBytes;
    row.block_bytes = digests.block_bytes;
    if (!value.block_crcs.empty()) {
      row.blocks = std::make_shared<const std::vector<uint32_t>>(
          std::move(value.block_crcs));
    }
    rows[directory + value.path].push_back(std::move(row));
  }
  for (auto& [name, list] : rows) {
    std::sort(list.begin(), list.end(),
              [](const Row& a, const Row& b) { return a.begin < b.begin; });
    File& file = files_[name];
    file.end = std::max(file.end, list.back().end);
    // A file outside databases that has a single value consists of that value.
    const bool is_one_value =
        list.size() == 1 && list[0].begin == 0 && !IsInDatabase(name);
    if (is_one_value) file.byte_count = list[0].end;
    file.lists.push_back(std::move(list));
  }
}

// Adds the nodes of a database: the ranges that its reader reads. The nodes
// below a damaged node are not added, but nobody reads them either.
Status StoredSums::AddNodes(const TreeListing& listing,
                            const ListedFile& manifest) {
  RangeRecorder recorder(listing.place.OpenStore());
  const auto database = ocdbt::Database::Open(
      &recorder,
      manifest.name.substr(0, manifest.name.size() - kManifestFile.size()));
  const Status checked =
      database.ok() ? (*database)->CheckAll() : database.status();
  if (!checked.ok() && !IsDamage(checked)) return checked;
  for (const auto& [name, ranges] : recorder.ranges()) {
    std::vector<Row> rows;
    for (const auto& [offset, byte_count] : ranges) {
      if (byte_count < kCrcBytes) continue;
      Row& row = rows.emplace_back();
      row.begin = offset;
      row.end = offset + byte_count;
      row.is_node = row.is_own_sum = true;
      row.block_bytes = kDigestBlockBytes;
    }
    if (!rows.empty()) files_[name].lists.push_back(std::move(rows));
  }
  return Status();
}

// Records the listed files that do not exist. A file that is reached by a link
// counts as existing, even if the link is not followed.
void StoredSums::FindGone(const TreeListing& listing) {
  for (const auto& [name, file] : files_) {
    if (listing.Find(name) != nullptr) continue;
    // Other tools do not copy this file.
    if (FileNameOf("/" + name) == kCommitMarkerFile) continue;
    const std::string path = listing.place.path() + "/" + name;
    if (listing.is_local() && IsThere(Place(path))) continue;
    gone_.emplace(name, GoneError(path));
  }
}

const StoredSums::File* StoredSums::Find(std::string_view name) const {
  const auto found = files_.find(name);
  return found == files_.end() ? nullptr : &found->second;
}

Status StoredSums::CheckSize(std::string_view name, uint64_t byte_count) const {
  const File* const file = Find(name);
  if (file == nullptr) return Status();
  const uint64_t want = file->byte_count.value_or(file->end);
  if (file->byte_count ? byte_count == want : byte_count >= want) {
    return Status();
  }
  return DataLossError(std::string(name) +
                       ": size differs from when it was saved (got " +
                       std::to_string(byte_count) + " bytes, want " +
                       std::to_string(want) + ")");
}

Status StoredSums::CheckGone(std::string_view name) const {
  const auto found = gone_.find(name);
  return found == gone_.end() ? Status() : found->second;
}

Status StoredSums::CheckNoneGone(std::string_view directory) const {
  std::string prefix(directory);
  if (!prefix.empty()) prefix += '/';
  const auto found = gone_.lower_bound(prefix);
  const bool is_below =
      found != gone_.end() && found->first.starts_with(prefix);
  return is_below ? found->second : Status();
}

// Reads a complete row, and returns the CRCs of its blocks. Sets `crc` to the
// CRC of the bytes that the row's CRC covers, and `tail` to the last four
// bytes.
Result<std::vector<uint32_t>> StoredSums::SumBlocks(const Row& row,
                                                    const ReadFn& read,
                                                    uint32_t& crc,
                                                    uint32_t& tail) {
  std::vector<uint32_t> blocks;
  std::string block, end;
  const uint64_t summed_end = row.end - (row.is_node ? kCrcBytes : 0);
  for (uint64_t at = row.begin; at < row.end; at += block.size()) {
    block.resize(std::min(row.block_bytes, row.end - at));
    HF_RETURN_IF_ERROR(read(at, block));
    blocks.push_back(Crc32c(block));
    const uint64_t summed =
        std::min<uint64_t>(block.size(), summed_end - std::min(at, summed_end));
    crc = ExtendCrc32c(crc, std::string_view(block).substr(0, summed));
    end += block;
    end.erase(0, end.size() - std::min<size_t>(end.size(), kCrcBytes));
  }
  tail = LittleEndian(end);
  return blocks;
}

// Returns the checksums of a row's blocks. If the list has none, reads the
// complete row, checks it, and sums its blocks.
Result<StoredSums::Crcs> StoredSums::BlocksOf(const Row& row,
                                              const ReadFn& read) const {
  {
    const std::lock_guard lock(mutex_);
    if (row.blocks != nullptr) return row.blocks;
  }
  uint32_t crc = 0, tail = 0;
  HF_ASSIGN_OR_RETURN(std::vector<uint32_t> blocks,
                      SumBlocks(row, read, crc, tail));
  const uint32_t want_crc = row.is_own_sum ? tail : row.crc32c;
  if (crc != want_crc) return DiffersAt(row.begin, crc, want_crc);
  const std::optional<uint32_t> want = row.is_node ? want_crc : row.tail;
  if (want && tail != *want) {
    return DiffersAt(row.end - kCrcBytes, tail, *want);
  }
  const std::lock_guard lock(mutex_);
  row.blocks = std::make_shared<const std::vector<uint32_t>>(std::move(blocks));
  return row.blocks;
}

Status StoredSums::CheckRow(const Row& row, uint64_t offset,
                            std::span<char> target, const ReadFn& read) const {
  HF_ASSIGN_OR_RETURN(const Crcs blocks, BlocksOf(row, read));
  const uint64_t end = offset + target.size();
  const uint64_t from = std::max(offset, row.begin);
  std::string whole;
  for (uint64_t number = (from - row.begin) / row.block_bytes;
       number < blocks->size(); ++number) {
    const uint64_t begin = row.begin + number * row.block_bytes;
    if (begin >= end) break;
    const uint64_t count = std::min(row.block_bytes, row.end - begin);
    std::string_view block;
    if (begin >= offset && begin + count <= end) {
      block = {target.data() + (begin - offset), count};
    } else {
      whole.resize(count);
      HF_RETURN_IF_ERROR(read(begin, whole));
      block = whole;
    }
    const uint32_t crc = Crc32c(block);
    if (crc != (*blocks)[number]) {
      return DiffersAt(begin, crc, (*blocks)[number]);
    }
    if (block.data() != whole.data()) continue;
    // Return the bytes that were checked, not bytes read again.
    const uint64_t first = std::max(begin, offset);
    std::memcpy(target.data() + (first - offset),
                whole.data() + (first - begin),
                std::min(begin + count, end) - first);
  }
  return Status();
}

Status StoredSums::ReadInto(std::string_view name, uint64_t offset,
                            std::span<char> target, const ReadFn& read) const {
  HF_RETURN_IF_ERROR(read(offset, target));
  const File* const file = Find(name);
  if (file == nullptr || target.empty()) return Status();
  const uint64_t end = offset + target.size();
  for (const std::vector<Row>& list : file->lists) {
    auto row = std::partition_point(
        list.begin(), list.end(),
        [&](const Row& each) { return each.end <= offset; });
    for (; row != list.end() && row->begin < end; ++row) {
      if (row->begin == row->end) continue;
      HF_RETURN_IF_ERROR(CheckRow(*row, offset, target, read));
    }
  }
  return Status();
}

}  // namespace holdfast
