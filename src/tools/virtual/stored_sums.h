// StoredSums: the checksums in a checkpoint's lists (`_HOLDFAST_DIGESTS`). With
// them, any range of a file is returned as it was saved or not at all.
//
// A range is checked in blocks. A list may have the checksums of blocks. For a
// value that has only one checksum of all its bytes, the complete value is read
// and checked before its first range is returned, and its blocks are summed on
// that occasion. So the check always covers the bytes that are returned, not
// bytes read earlier. Database nodes that no list names are checked by their
// own checksums. Other bytes are not checked.
// Thread-safety: any thread. Ownership: a value of the lists.
// Units: bytes. Errors: DataLoss for a damaged list, for bytes that differ and
// for files that are missing or of another size; those of reading.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/commit/tree_listing.h"
#include "engine/format/digest_file.h"

namespace holdfast {

class StoredSums {
 public:
  // Reads all lists in `listing`, which must cover the checkpoint. If there is
  // a list, also reads the checksums of the databases' nodes.
  static Result<std::unique_ptr<const StoredSums>> Read(
      const TreeListing& listing);

  // Computes checksums of the files' present contents.
  static Result<std::unique_ptr<const StoredSums>> Sum(
      const TreeListing& listing);

  // Returns true if there are no checksums.
  bool is_empty() const { return files_.empty(); }

  // Returns DataLoss if a listed file cannot have this size, and ok for a file
  // that no list names.
  Status CheckSize(std::string_view name, uint64_t byte_count) const;
  // Returns DataLoss if the file is listed. Call it for a file that does not
  // exist.
  Status CheckGone(std::string_view name) const;
  // Returns DataLoss if a listed file below the directory does not exist.
  Status CheckNoneGone(std::string_view directory) const;

  using ReadFn = std::function<Status(uint64_t offset, std::span<char> target)>;
  // Fills `target` with the file's bytes from `offset` on. Reads them with
  // `read`, and checks them.
  Status ReadInto(std::string_view name, uint64_t offset,
                  std::span<char> target, const ReadFn& read) const;

 private:
  using Crcs = std::shared_ptr<const std::vector<uint32_t>>;
  // A range of a file whose checksum is known.
  struct Row {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t crc32c = 0;
    // The last four bytes, little endian, if they are a checksum.
    std::optional<uint32_t> tail;
    // The row is a database node: the CRC covers all but the last four bytes,
    // which store it.
    bool is_node = false;
    // The CRC of this node is known only from these four bytes.
    bool is_own_sum = false;
    uint64_t block_bytes = 0;
    mutable Crcs blocks;  // null until summed; guarded by mutex_
  };
  struct File {
    // The rows of each list that has any for this file, by offset.
    std::vector<std::vector<Row>> lists;
    // The size, if a list records it.
    std::optional<uint64_t> byte_count;
    uint64_t end = 0;  // of the last row
  };

  static Result<std::vector<uint32_t>> SumBlocks(const Row& row,
                                                 const ReadFn& read,
                                                 uint32_t& crc, uint32_t& tail);
  Status AddList(const TreeListing& listing, const ListedFile& list);
  void AddValues(const std::string& directory, DigestFile digests);
  void AddWhole(const std::string& name, uint64_t byte_count, uint32_t crc32c);
  Status AddNodes(const TreeListing& listing, const ListedFile& manifest);
  void FindGone(const TreeListing& listing);
  const File* Find(std::string_view name) const;
  Result<Crcs> BlocksOf(const Row& row, const ReadFn& read) const;
  Status CheckRow(const Row& row, uint64_t offset, std::span<char> target,
                  const ReadFn& read) const;

  std::map<std::string, File, std::less<>> files_;
  std::map<std::string, Status, std::less<>> gone_;
  mutable std::mutex mutex_;
};

}  // namespace holdfast
