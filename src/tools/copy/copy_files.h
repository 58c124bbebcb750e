// FileCopier: copies many files concurrently, each in several pieces at a time.
// Only these pieces are in memory.
//
// Thread-safety: one call at a time. Ownership: borrows its arguments.
// Units: bytes.
// Errors: those of the stores, with the path; FailedPrecondition if a local
// source has changed since it was listed, DataLoss if a bucket's object has.
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

// The store that files are copied to.
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

  // Copies the files. When it returns ok, all are complete and durable. Reports
  // progress for each piece. Returns DataLoss if bytes differ from `sums`, and
  // does not write that file. Does not check files that the server copies
  // within a bucket.
  Status Copy(std::span<const FileCopy> files, const CopyTarget& target,
              const ListedSums& sums);

  // Returns true if each file of `names` equals, byte for byte, the file of the
  // same name below `other_prefix` in `other`. REQUIRES: equal sizes.
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
  // Fills the whole target. May be called from any thread.
  virtual Status Read(uint64_t offset, std::span<char> target) = 0;
  // Returns FailedPrecondition if the file is no longer the one that was
  // listed.
  virtual Status CheckUnchanged() = 0;
};
Result<std::unique_ptr<ListedFileReader>> OpenListedFile(
    const TreeListing& listing, const ListedFile& file);
// Reads all of a small file.
Result<std::string> ReadListedFile(const TreeListing& listing,
                                   const ListedFile& file);

}  // namespace holdfast
