// The table of data files that a manifest or a node refers to, and references
// into them.
//
// A path is base + relative, joined as plain bytes. If the file refers to
// further files, their paths inherit the base path. Here every base path starts
// with the base path of the object in which the table was found, so `path` is
// the full key of the file in the base store.
//
// Thread-safety: values and pure functions. Units: bytes.
// Errors: DataLoss for a damaged table; InvalidArgument for a path that must
// not be passed to any store.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/ocdbt/format/body_reader.h"
#include "formats/ocdbt/format/body_writer.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

struct DataFile {
  std::string path;
  size_t base_byte_count = 0;  // <= path.size()

  std::string_view base() const {
    return std::string_view(path).substr(0, base_byte_count);
  }
  std::string_view relative() const {
    return std::string_view(path).substr(base_byte_count);
  }
  bool operator==(const DataFile&) const = default;
};

using DataFileTable = std::vector<DataFile>;

// Returns ok, or InvalidArgument `Invalid key: "..."` for a path with an empty
// part, ".", "..", a NUL byte, a backslash, a leading or trailing '/', or a
// name ending in "__lock".
Status CheckDataFilePath(std::string_view path);

struct Reference {
  uint32_t file_index = 0;
  uint64_t offset = 0;
  uint64_t byte_count = 0;

  static constexpr uint64_t kMissing = std::numeric_limits<uint64_t>::max();
  // Returns true for the root of an empty tree.
  bool missing() const { return offset == kMissing && byte_count == kMissing; }
  bool operator==(const Reference&) const = default;
};

// Sums over a node and everything below it.
struct Statistics {
  uint64_t key_count = 0;
  uint64_t tree_byte_count = 0;  // of the encoded nodes
  uint64_t indirect_value_byte_count = 0;

  // Saturates.
  void Add(const Statistics& other);
  bool operator==(const Statistics&) const = default;
};

// Returns "{num_indirect_value_bytes=N, num_tree_bytes=N, num_keys=N}".
std::string StatisticsText(const Statistics& statistics);

// `transitive_base` is the base path of the file that holds the table.
Result<DataFileTable> ReadDataFileTable(BodyReader& reader,
                                        std::string_view transitive_base);

// Reads the file id, offset and length columns of references.size() records.
enum class AllowMissing : bool { kNo, kYes };
Status ReadReferences(BodyReader& reader, const DataFileTable& files,
                      AllowMissing allow_missing,
                      std::span<Reference> references);
Status ReadStatistics(BodyReader& reader, std::span<Statistics> statistics);
// Read and check single fields of a reference, for leaf nodes.
Status ReadFileIndex(BodyReader& reader, const DataFileTable& files,
                     uint32_t& file_index);
Status CheckRange(const BodyReader& reader, const DataFileTable& files,
                  const Reference& reference);

// The table to be written: the distinct used files, sorted.
class DataFileTableWriter {
 public:
  // `files` is borrowed and may hold unused and equal entries in any order.
  explicit DataFileTableWriter(const DataFileTable& files) : files_(files) {}

  // Marks files[file_index] as used.
  void Use(uint32_t file_index);
  // Sorts and numbers the files. Must be called after the last Use.
  void Sort();
  // REQUIRES for these two and WrittenIndex: Sort() was called.
  uint64_t BytesMax() const;
  void Write(BodyWriter& writer) const;
  // Returns the id that `file_index` gets in the written table.
  uint32_t WrittenIndex(uint32_t file_index) const;

 private:
  struct Used {
    uint32_t file_index;
    uint32_t written_index;
  };
  const DataFileTable& files_;
  std::vector<Used> used_;        // sorted by file_index
  std::vector<uint32_t> sorted_;  // file indices in written order
};

}  // namespace holdfast::ocdbt
