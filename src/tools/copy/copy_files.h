// FileCopier: copies many files concurrently, each in pieces, several of which
// are under way; holds nothing else in memory.
//
// Thread-safety: one call at a time. Ownership: borrows its arguments.
// Units: bytes.
// Errors: those of the stores, with the path; FailedPrecondition when a local
// source has changed since it was listed (a bucket's is DataLoss).
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/commit/tree_listing.h"
#include "ground/base/bytes.h"
#include "ground/run/run.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"
#include "tools/copy/file_sums.h"

namespace holdfast {

inline constexpr uint64_t kCopyPieceBytes = uint64_t{8} << 20;

struct FileCopy {
  const ListedFile* source = nullptr;
  std::string target;  // its key in the target store
};

// The place that files are copied to.
struct CopyTarget {
  Store* store = nullptr;
  // For an object store: its bucket, and the prefix that the keys of `store`
  // have in the bucket.
  Bucket* bucket = nullptr;
  std::string prefix;
};

class FileCopier {
 public:
  FileCopier(const TreeListing& source, Run& run)
      : source_(source), run_(run) {}

  // When this returns ok, all files are complete and durable. Reports progress
  // for each piece. Bytes that differ from `sums` are DataLoss, and their file
  // is not written; files that a server copies by itself are not checked.
  Status Copy(std::span<const FileCopy> files, const CopyTarget& target,
              const ListedSums& sums);

  // Returns, for each file, whether it equals the file at the same place below
  // `other` byte for byte. REQUIRES: equal sizes.
  Result<bool> Equal(const std::vector<std::string>& names,
                     const TreeListing& other, std::string_view other_prefix);

  uint64_t server_file_count() const { return server_file_count_; }
  uint64_t server_byte_count() const { return server_byte_count_; }

 private:
  const TreeListing& source_;
  Run& run_;
  std::atomic<uint64_t> server_file_count_ = 0;
  std::atomic<uint64_t> server_byte_count_ = 0;
};

// Reads ranges of one file of a listing.
class ListedFileReader {
 public:
  virtual ~ListedFileReader() = default;
  // Any thread. Fills the target exactly.
  virtual Status Read(uint64_t offset, std::span<char> target) = 0;
  // FailedPrecondition when the file is no longer the one that was listed.
  virtual Status CheckUnchanged() = 0;
};
Result<std::unique_ptr<ListedFileReader>> OpenListedFile(
    const TreeListing& listing, const ListedFile& file);
// Reads all of a small file.
Result<std::string> ReadListedFile(const TreeListing& listing,
                                   const ListedFile& file);

}  // namespace holdfast
