// CheckedStore: the store of a directory's files. It returns bytes only if they
// match `_HOLDFAST_DIGESTS`.
//
// This is the only place that compares bytes with the sidecar, so no reader of
// an Item's stores can forget to. If a read touches a listed value, either the
// complete value or the touched blocks are checked; the read is extended to the
// block borders. A value with a `tail` is checked by its decoder; here, only
// the bytes of the tail are compared. A value with neither, as in sidecars of
// release 0.1.0, is read completely once before the first part of it is
// returned. Values that the sidecar does not list pass unchecked.
// Thread-safety: any thread. Ownership: shares the store and the index.
// Units: bytes.
// Errors: those of the store; DataLoss with both checksums for bytes that
// differ, and for a listed file that is missing.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/check/digest_index.h"
#include "stores/storage/read_only_store.h"

namespace holdfast {

class CheckedStore final : public ReadOnlyStore {
 public:
  CheckedStore(std::shared_ptr<Store> inner,
               std::shared_ptr<const DigestIndex> digests);

  std::string Describe(std::string_view key) const override {
    return inner_->Describe(key);
  }
  int requests_in_flight() const override {
    return inner_->requests_in_flight();
  }
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel = nullptr) override;
  Status List(std::string_view prefix,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>& fn) override;

 private:
  using Rows = std::span<const ValueDigest>;
  struct Extent;
  struct Fetch;

  // Turns a failed read of a listed file that is missing or truncated into
  // DataLoss.
  Status Explained(std::string_view key, const Status& status);
  // Returns DataLoss for a file shorter than the digests require.
  Status CheckNotCut(std::string_view key, uint64_t byte_count) const;
  Result<Bytes> ReadWhole(std::string_view key);
  Result<Extent> Widen(std::string_view key, uint64_t offset,
                       uint64_t byte_count, const CancelToken* cancel);
  Result<uint64_t> Border(const ValueDigest& row, uint64_t offset,
                          bool is_behind, const CancelToken* cancel);
  Status CheckWhole(const ValueDigest& row, const CancelToken* cancel);
  Status CheckListedFile(const FileDigest& row);
  Status CheckBytes(const Extent& extent, std::string_view key,
                    std::string_view bytes) const;
  uint64_t SplitBytesMin() const;
  Status AddRequest(const RangeRead& request, const CancelToken* cancel,
                    std::vector<Fetch>& fetches);
  static void AddFetch(const RangeRead& request, Extent extent,
                       std::vector<Fetch>& fetches);
  static Status Reserve(uint64_t byte_count, Buffer& scratch);
  Status RunAlone(const Fetch& fetch, const CancelToken* cancel,
                  Buffer& scratch);
  Status RunTogether(std::span<const Fetch> fetches, const CancelToken* cancel);

  const std::shared_ptr<Store> inner_;
  const std::shared_ptr<const DigestIndex> digests_;
  // By row index: true for values that were read completely and were correct.
  std::vector<std::atomic<bool>> is_checked_;
};

}  // namespace holdfast
