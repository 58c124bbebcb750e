#include "engine/check/checked_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/check/row_checker.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Bytes are read and summed in steps of this size, while they are in the cache.
constexpr uint64_t kStepBytes = 256 << 10;
// A value without blocks counts as one block up to this size.
constexpr uint64_t kWholeValueBytesMax = 256 << 10;
// In reads of at least this size, only the blocks at the ends go through
// scratch memory.
constexpr uint64_t kSplitBytesMin = 1 << 20;
constexpr uint64_t kRemoteSplitBytesMin = 8 << 20;
// Limit of the scratch memory for blocks.
constexpr uint64_t kScratchBytesMax = 8 << 20;

}  // namespace

// A range to read, and the rows that overlap it.
struct CheckedStore::Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  Rows rows;

  uint64_t byte_count() const { return end - begin; }
};

// One read from the inner store: straight into a request's memory, or into
// scratch memory for the requests that need a part of it.
struct CheckedStore::Fetch {
  Extent extent;
  std::vector<RangeRead> requests;  // not empty; all of one key

  std::string_view key() const { return requests.front().key; }
  bool is_direct() const {
    return requests.size() == 1 && requests[0].offset == extent.begin &&
           requests[0].target.size() == extent.byte_count();
  }
  void HandOut(const char* bytes) const {
    for (const RangeRead& request : requests) {
      std::memcpy(request.target.data(),
                  bytes + (request.offset - extent.begin),
                  request.target.size());
    }
  }
};

CheckedStore::CheckedStore(std::shared_ptr<Store> inner,
                           std::shared_ptr<const DigestIndex> digests)
    : inner_(std::move(inner)),
      digests_(std::move(digests)),
      is_checked_(digests_->values().size()) {}

Status CheckedStore::Explained(std::string_view key, const Status& status) {
  if (!digests_->Lists(key)) return status;
  if (status.code() == StatusCode::kOutOfRange) {
    const Status cut = Stat(key).status();
    return cut.ok() ? status : cut;
  }
  if (status.code() != StatusCode::kNotFound) return status;
  return DataLossError(Describe(key) +
                       ": the file is missing, and the checkpoint was saved "
                       "with it");
}

Result<ObjectInfo> CheckedStore::Stat(std::string_view key) {
  const Result<ObjectInfo> info = inner_->Stat(key);
  if (!info.ok()) return Explained(key, info.status());
  // A truncated file is noticed here, before memory is allocated for its
  // content.
  HF_RETURN_IF_ERROR(CheckNotCut(key, info->byte_count));
  return info;
}

Status CheckedStore::CheckNotCut(std::string_view key,
                                 uint64_t byte_count) const {
  const Rows rows = digests_->RowsOf(key);
  if (rows.empty() || byte_count >= EndOf(rows.back())) return Status();
  return DigestIndex::CheckSum({"", EndOf(rows.back()), 0}, {"", byte_count, 0})
      .WithContext(Describe(key));
}

Status CheckedStore::List(
    std::string_view prefix,
    const std::function<Status(std::string_view, const ObjectInfo&)>& fn) {
  return inner_->List(prefix, fn);
}

Result<Bytes> CheckedStore::ReadWhole(std::string_view key) {
  Result<Bytes> content = inner_->Read(key);
  if (!content.ok()) return Explained(key, content.status());
  const auto described = [&](const Status& status) {
    return status.ok() ? status : status.WithContext(Describe(key));
  };
  if (const FileDigest* file = digests_->FindFile(key)) {
    HF_RETURN_IF_ERROR(
        described(DigestIndex::CheckFile(*file, content->view())));
  }
  HF_RETURN_IF_ERROR(CheckNotCut(key, content->size()));
  const Rows rows = digests_->RowsOf(key);
  // If a single row covers the file, the value is a complete file.
  if (rows.size() == 1 && rows[0].byte_count != content->size()) {
    HF_RETURN_IF_ERROR(
        described(DigestIndex::CheckValue(rows[0], content->view())));
  }
  HF_RETURN_IF_ERROR(
      CheckBytes({0, content->size(), rows}, key, content->view()));
  return content;
}

Result<Bytes> CheckedStore::Read(std::string_view key, ByteRange range) {
  if (range.offset == 0 && range.byte_count == kToEnd) return ReadWhole(key);
  if (!digests_->Lists(key)) return inner_->Read(key, range);
  if (range.byte_count == kToEnd) {
    HF_ASSIGN_OR_RETURN(const ObjectInfo info, Stat(key));
    HF_ASSIGN_OR_RETURN(range,
                        ResolveRange(range, info.byte_count, Describe(key)));
  }
  HF_ASSIGN_OR_RETURN(const Extent extent,
                      Widen(key, range.offset, range.byte_count, nullptr));
  Result<Bytes> bytes = inner_->Read(key, {extent.begin, extent.byte_count()});
  if (!bytes.ok()) return Explained(key, bytes.status());
  HF_RETURN_IF_ERROR(CheckBytes(extent, key, bytes->view()));
  return bytes->Slice(range.offset - extent.begin, range.byte_count);
}

Status CheckedStore::ReadInto(std::string_view key, uint64_t offset,
                              std::span<char> target) {
  const RangeRead request{key, offset, target};
  return ReadBatch({&request, 1});
}

Status CheckedStore::CheckBytes(const Extent& extent, std::string_view key,
                                std::string_view bytes) const {
  if (extent.rows.empty()) return Status();
  return RowChecker(*inner_, key, extent.rows, digests_->block_bytes(),
                    extent.begin, extent.end)
      .Feed(bytes);
}

// Extends a range of a listed file to one that can be checked.
Result<CheckedStore::Extent> CheckedStore::Widen(std::string_view key,
                                                 uint64_t offset,
                                                 uint64_t byte_count,
                                                 const CancelToken* cancel) {
  // Checked first, because the addition below could overflow.
  if (byte_count > kToEnd - offset) {
    return OutOfRangeError("read " + Describe(key) + ": bytes at offset " +
                           std::to_string(offset) + " are past the end");
  }
  if (const FileDigest* file = digests_->FindFile(key)) {
    HF_RETURN_IF_ERROR(CheckListedFile(*file));
  }
  Extent extent{offset, offset + byte_count, {}};
  if (byte_count == 0) return extent;
  const Rows all = digests_->RowsOf(key);
  const auto first = std::partition_point(
      all.begin(), all.end(),
      [&](const auto& row) { return EndOf(row) <= extent.begin; });
  const auto last = std::partition_point(
      first, all.end(),
      [&](const auto& row) { return row.offset < extent.end; });
  extent.rows = Rows(first, last);
  if (extent.rows.empty()) return extent;
  const uint64_t end = extent.end;
  HF_ASSIGN_OR_RETURN(extent.begin, Border(extent.rows.front(), extent.begin,
                                           /*is_behind=*/false, cancel));
  HF_ASSIGN_OR_RETURN(
      extent.end, Border(extent.rows.back(), end, /*is_behind=*/true, cancel));
  return extent;
}

// Returns `offset`, or if it is inside a row, the nearest border at which the
// row can be checked.
Result<uint64_t> CheckedStore::Border(const ValueDigest& row, uint64_t offset,
                                      bool is_behind,
                                      const CancelToken* cancel) {
  // A value with a tail is checked by its decoder, so a read may cut it
  // anywhere.
  if (offset <= row.offset || offset >= EndOf(row) || row.tail) return offset;
  if (!row.block_crcs.empty()) {
    return BlockBorder(row, digests_->block_bytes(), offset, is_behind);
  }
  if (row.byte_count <= kWholeValueBytesMax) {
    return is_behind ? EndOf(row) : row.offset;
  }
  HF_RETURN_IF_ERROR(CheckWhole(row, cancel));
  return offset;
}

Status CheckedStore::CheckWhole(const ValueDigest& row,
                                const CancelToken* cancel) {
  // A large value without blocks is read completely once; later reads rely on
  // that.
  std::atomic<bool>& is_checked =
      is_checked_[static_cast<size_t>(&row - digests_->values().data())];
  // If several threads get here at the same time, all of them check: slower,
  // but correct.
  if (is_checked.load(std::memory_order_acquire)) return Status();
  Buffer step = Buffer::TryAllocate(kStepBytes);
  if (step.data() == nullptr) {
    return ResourceExhaustedError("check " + Describe(row.path) +
                                  ": no memory for " +
                                  std::to_string(kStepBytes) + " bytes");
  }
  const uint64_t end = EndOf(row);
  RowChecker checker(*inner_, row.path, {&row, 1}, digests_->block_bytes(),
                     row.offset, end);
  for (uint64_t at = row.offset; at < end;) {
    if (cancel != nullptr) HF_RETURN_IF_ERROR(cancel->Check());
    const size_t byte_count = std::min(kStepBytes, end - at);
    HF_RETURN_IF_ERROR(Explained(
        row.path, inner_->ReadInto(row.path, at, {step.data(), byte_count})));
    HF_RETURN_IF_ERROR(checker.Feed({step.data(), byte_count}));
    at += byte_count;
  }
  is_checked.store(true, std::memory_order_release);
  return Status();
}

// Checks a listed file completely. Such files are small: metadata and
// manifests.
Status CheckedStore::CheckListedFile(const FileDigest& row) {
  const Result<FileDigest> sum = SumFile(*inner_, row.path);
  if (!sum.ok()) return Explained(row.path, sum.status());
  const Status checked = DigestIndex::CheckSum(row, *sum);
  return checked.ok() ? checked : checked.WithContext(Describe(row.path));
}

// Adds the request to `fetches`. A large request is split into its unaligned
// ends and its middle, which is read in place.
Status CheckedStore::AddRequest(const RangeRead& request,
                                const CancelToken* cancel,
                                std::vector<Fetch>& fetches) {
  const uint64_t begin = request.offset;
  const uint64_t byte_count = request.target.size();
  HF_ASSIGN_OR_RETURN(Extent extent,
                      Widen(request.key, begin, byte_count, cancel));
  const uint64_t end = begin + byte_count;
  const bool is_ragged = extent.begin != begin || extent.end != end;
  if (is_ragged && byte_count >= SplitBytesMin()) {
    HF_ASSIGN_OR_RETURN(const uint64_t middle,
                        Border(extent.rows.front(), begin, true, cancel));
    HF_ASSIGN_OR_RETURN(const uint64_t rest,
                        Border(extent.rows.back(), end, false, cancel));
    // The borders meet or cross if there is no complete block between them.
    if (begin <= middle && middle < rest && rest <= end) {
      for (const auto& [from, to] :
           {std::pair(begin, middle), std::pair(middle, rest),
            std::pair(rest, end)}) {
        if (from == to) continue;
        const std::span<char> part =
            request.target.subspan(from - begin, to - from);
        HF_ASSIGN_OR_RETURN(Extent piece,
                            Widen(request.key, from, part.size(), cancel));
        AddFetch({request.key, from, part}, std::move(piece), fetches);
      }
      return Status();
    }
  }
  AddFetch(request, std::move(extent), fetches);
  return Status();
}

// Merges requests for the same blocks into one read.
void CheckedStore::AddFetch(const RangeRead& request, Extent extent,
                            std::vector<Fetch>& fetches) {
  if (!fetches.empty() && fetches.back().key() == request.key) {
    Extent& last = fetches.back().extent;
    if (extent.begin >= last.begin && extent.begin < last.end &&
        extent.end - last.begin <= kScratchBytesMax) {
      if (extent.end > last.end) {
        // Both are consecutive rows of the same file.
        last.end = extent.end;
        if (!extent.rows.empty()) {
          last.rows =
              Rows(last.rows.empty() ? extent.rows.data() : last.rows.data(),
                   extent.rows.data() + extent.rows.size());
        }
      }
      fetches.back().requests.push_back(request);
      return;
    }
  }
  fetches.push_back({std::move(extent), {request}});
}

Status CheckedStore::ReadBatch(std::span<const RangeRead> requests,
                               const CancelToken* cancel) {
  std::vector<Fetch> fetches;
  for (const RangeRead& request : requests) {
    HF_RETURN_IF_ERROR(AddRequest(request, cancel, fetches));
  }
  if (requests_in_flight() > 1) return RunTogether(fetches, cancel);
  Buffer scratch;
  for (const Fetch& fetch : fetches) {
    HF_RETURN_IF_ERROR(RunAlone(fetch, cancel, scratch));
  }
  return Status();
}

uint64_t CheckedStore::SplitBytesMin() const {
  return requests_in_flight() > 1 ? kRemoteSplitBytesMin : kSplitBytesMin;
}

Status CheckedStore::Reserve(uint64_t byte_count, Buffer& scratch) {
  if (scratch.size() >= byte_count) return Status();
  scratch = Buffer();
  scratch = Buffer::TryAllocate(byte_count);
  if (scratch.data() != nullptr) return Status();
  return ResourceExhaustedError("no memory for " + std::to_string(byte_count) +
                                " bytes of blocks");
}

// Reads and checks one fetch, in steps, so that bytes are summed while they are
// in the cache.
Status CheckedStore::RunAlone(const Fetch& fetch, const CancelToken* cancel,
                              Buffer& scratch) {
  const Extent& extent = fetch.extent;
  char* target = fetch.requests[0].target.data();
  if (!fetch.is_direct()) {
    HF_RETURN_IF_ERROR(Reserve(extent.byte_count(), scratch));
    target = scratch.data();
  }
  RowChecker checker(*inner_, fetch.key(), extent.rows, digests_->block_bytes(),
                     extent.begin, extent.end);
  const uint64_t step_bytes = checker.sums() ? kStepBytes : kToEnd;
  uint64_t at = extent.begin;
  do {
    if (cancel != nullptr) HF_RETURN_IF_ERROR(cancel->Check());
    const std::span<char> step(target + (at - extent.begin),
                               std::min(step_bytes, extent.end - at));
    HF_RETURN_IF_ERROR(
        Explained(fetch.key(), inner_->ReadInto(fetch.key(), at, step)));
    HF_RETURN_IF_ERROR(checker.Feed({step.data(), step.size()}));
    at += step.size();
  } while (at < extent.end);
  if (!fetch.is_direct()) fetch.HandOut(target);
  return Status();
}

// Reads the fetches as one batch of the inner store, or as several if the
// blocks would need too much memory.
Status CheckedStore::RunTogether(std::span<const Fetch> fetches,
                                 const CancelToken* cancel) {
  while (!fetches.empty()) {
    std::vector<Buffer> scratch;
    std::vector<RangeRead> reads;
    uint64_t scratch_bytes = 0;
    for (const Fetch& fetch : fetches) {
      const uint64_t byte_count = fetch.extent.byte_count();
      char* target = fetch.requests[0].target.data();
      if (!fetch.is_direct()) {
        scratch_bytes += byte_count;
        // At least one fetch is included, whatever its size, so that the loop
        // ends.
        if (!reads.empty() && scratch_bytes > kScratchBytesMax) break;
        HF_RETURN_IF_ERROR(Reserve(byte_count, scratch.emplace_back()));
        target = scratch.back().data();
      }
      reads.push_back({fetch.key(), fetch.extent.begin, {target, byte_count}});
    }
    HF_RETURN_IF_ERROR(
        Explained(reads.front().key, inner_->ReadBatch(reads, cancel)));
    for (size_t i = 0; i < reads.size(); ++i) {
      const std::span<char> bytes = reads[i].target;
      HF_RETURN_IF_ERROR(CheckBytes(fetches[i].extent, reads[i].key,
                                    {bytes.data(), bytes.size()}));
      if (!fetches[i].is_direct()) fetches[i].HandOut(bytes.data());
    }
    fetches = fetches.subspan(reads.size());
  }
  return Status();
}

}  // namespace holdfast
