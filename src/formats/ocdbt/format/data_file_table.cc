#include "formats/ocdbt/format/data_file_table.h"

#include <algorithm>
#include <cassert>

#include "formats/ocdbt/format/limits.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

struct PathLengths {
  uint16_t prefix = 0;
  uint16_t suffix = 0;
  uint16_t base = 0;
};

uint64_t CommonPrefix(std::string_view a, std::string_view b) {
  return std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()),
                       b.begin())
             .first -
         a.begin();
}

uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b
             ? std::numeric_limits<uint64_t>::max()
             : a + b;
}

bool BadPathPart(std::string_view part) {
  return part.empty() || part == "." || part == ".." ||
         part.ends_with("__lock");
}

Status CheckPrefix(const BodyReader& reader, size_t index,
                   const PathLengths& before, const PathLengths& here) {
  const std::string previous = std::to_string(index - 1);
  const std::string stated =
      "path_prefix_length[" + previous + "] = " + std::to_string(here.prefix);
  const uint64_t previous_length = uint64_t{before.prefix} + before.suffix;
  if (here.prefix > previous_length) {
    return reader.DataLoss(stated + " > path_length[" + previous +
                           "] = " + std::to_string(previous_length));
  }
  if (here.base == before.base) return Status();
  if (here.prefix <= std::min(here.base, before.base)) return Status();
  const std::string previous_base = "base_path_length[" + previous + "]";
  const std::string this_base =
      "base_path_length[" + std::to_string(index) + "]";
  return reader.DataLoss(
      stated + " > min(" + previous_base + " = " + std::to_string(before.base) +
      ", " + this_base + " = " + std::to_string(here.base) +
      ") is not valid if " + previous_base + " != " + this_base);
}

Status CheckLength(const BodyReader& reader, size_t index,
                   const PathLengths& here, uint64_t transitive_byte_count) {
  const uint64_t length = uint64_t{here.prefix} + here.suffix;
  // Not negative, since ReadDataFileTable has bounded the transitive base.
  const uint64_t length_max = kPathBytesMax - transitive_byte_count;
  const std::string name = "path_length[" + std::to_string(index) + "] = ";
  const std::string sum = "prefix_length(" + std::to_string(here.prefix) +
                          ") + suffix_length(" + std::to_string(here.suffix) +
                          ")";
  if (length > length_max) {
    return reader.DataLoss(name + sum + " = " + std::to_string(length) +
                           " > 65535 - transitive_length(" +
                           std::to_string(transitive_byte_count) +
                           ") = " + std::to_string(length_max));
  }
  if (here.base <= length) return Status();
  return reader.DataLoss("base_path_length[" + std::to_string(index) +
                         "] = " + std::to_string(here.base) + " > " + name +
                         std::to_string(length) + " = " + sum);
}

Status ReadLengths(BodyReader& reader, std::span<PathLengths> lengths) {
  for (size_t i = 1; i < lengths.size(); ++i) {
    HF_RETURN_IF_ERROR(reader.ReadVarint16(lengths[i].prefix));
  }
  for (PathLengths& length : lengths) {
    HF_RETURN_IF_ERROR(reader.ReadVarint16(length.suffix));
  }
  for (PathLengths& length : lengths) {
    HF_RETURN_IF_ERROR(reader.ReadVarint16(length.base));
  }
  return Status();
}

Status CheckLengths(const BodyReader& reader,
                    std::span<const PathLengths> lengths,
                    uint64_t transitive_byte_count) {
  uint64_t total = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const PathLengths before = i == 0 ? PathLengths() : lengths[i - 1];
    if (i > 0 && lengths[i].prefix > before.prefix + before.suffix) {
      return CheckPrefix(reader, i, before, lengths[i]);
    }
    HF_RETURN_IF_ERROR(
        CheckLength(reader, i, lengths[i], transitive_byte_count));
    if (i > 0) HF_RETURN_IF_ERROR(CheckPrefix(reader, i, before, lengths[i]));
    total += transitive_byte_count + lengths[i].prefix + lengths[i].suffix;
  }
  const uint64_t total_max =
      kExpansionBytesFree +
      kExpansionRatioMax * (reader.offset() + reader.remaining());
  if (total <= total_max) return Status();
  return reader.DataLoss("Data file paths take " + std::to_string(total) +
                         " bytes, which exceeds limit of " +
                         std::to_string(total_max));
}

}  // namespace

Status CheckDataFilePath(std::string_view path) {
  bool bad = path.find('\0') != std::string_view::npos ||
             path.find('\\') != std::string_view::npos;
  for (size_t start = 0; !bad && start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    bad = BadPathPart(path.substr(start, end - start));
    start = end + 1;
  }
  if (!bad) return Status();
  return InvalidArgumentError("Invalid key: \"" + std::string(path) + '"');
}

void Statistics::Add(const Statistics& other) {
  key_count = SaturatingAdd(key_count, other.key_count);
  tree_byte_count = SaturatingAdd(tree_byte_count, other.tree_byte_count);
  indirect_value_byte_count =
      SaturatingAdd(indirect_value_byte_count, other.indirect_value_byte_count);
}

std::string StatisticsText(const Statistics& statistics) {
  return "{num_indirect_value_bytes=" +
         std::to_string(statistics.indirect_value_byte_count) +
         ", num_tree_bytes=" + std::to_string(statistics.tree_byte_count) +
         ", num_keys=" + std::to_string(statistics.key_count) + "}";
}

Result<DataFileTable> ReadDataFileTable(BodyReader& reader,
                                        std::string_view transitive_base) {
  uint64_t file_count = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint64(file_count));
  // A file takes at least two bytes, and each file after the first takes one
  // more.
  HF_RETURN_IF_ERROR(reader.CheckRoomFor(file_count, 2));
  if (file_count > std::numeric_limits<uint32_t>::max()) {
    return reader.DataLoss("num_files=" + std::to_string(file_count) +
                           " exceeds maximum of 4294967295");
  }
  if (transitive_base.size() > kPathBytesMax) {
    return reader.DataLoss("Transitive base path has " +
                           std::to_string(transitive_base.size()) +
                           " bytes, which exceeds limit of 65535");
  }
  std::vector<PathLengths> lengths(file_count);
  HF_RETURN_IF_ERROR(ReadLengths(reader, lengths));
  HF_RETURN_IF_ERROR(CheckLengths(reader, lengths, transitive_base.size()));

  DataFileTable files(file_count);
  for (size_t i = 0; i < file_count; ++i) {
    std::string_view suffix;
    HF_RETURN_IF_ERROR(reader.ReadBytes(lengths[i].suffix, suffix));
    std::string& path = files[i].path;
    path.reserve(transitive_base.size() + lengths[i].prefix + suffix.size());
    if (i == 0) path = transitive_base;
    if (i > 0) {
      path.assign(files[i - 1].path, 0,
                  transitive_base.size() + lengths[i].prefix);
    }
    path += suffix;
    files[i].base_byte_count = transitive_base.size() + lengths[i].base;
  }
  return files;
}

Status ReadFileIndex(BodyReader& reader, const DataFileTable& files,
                     uint32_t& file_index) {
  uint64_t id = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint64(id));
  if (id >= files.size()) {
    return reader.DataLoss("Data file id " + std::to_string(id) +
                           " is outside range [0, " +
                           std::to_string(files.size()) + ")");
  }
  file_index = static_cast<uint32_t>(id);
  return Status();
}

Status CheckRange(const BodyReader& reader, const DataFileTable& files,
                  const Reference& reference) {
  if (reference.offset <= kOffsetMax &&
      reference.byte_count <= kOffsetMax - reference.offset) {
    return Status();
  }
  const DataFile& file = files[reference.file_index];
  return reader.DataLoss(
      "Invalid offset/length pair in {file_id=\"" + std::string(file.base()) +
      "\"+\"" + std::string(file.relative()) +
      "\", offset=" + std::to_string(reference.offset) +
      ", length=" + std::to_string(reference.byte_count) + "}");
}

Status ReadReferences(BodyReader& reader, const DataFileTable& files,
                      AllowMissing allow_missing,
                      std::span<Reference> references) {
  for (Reference& reference : references) {
    HF_RETURN_IF_ERROR(ReadFileIndex(reader, files, reference.file_index));
  }
  for (Reference& reference : references) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(reference.offset));
  }
  for (Reference& reference : references) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(reference.byte_count));
  }
  for (const Reference& reference : references) {
    if (allow_missing == AllowMissing::kYes && reference.missing()) continue;
    HF_RETURN_IF_ERROR(CheckRange(reader, files, reference));
  }
  return Status();
}

Status ReadStatistics(BodyReader& reader, std::span<Statistics> statistics) {
  for (Statistics& entry : statistics) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(entry.key_count));
  }
  for (Statistics& entry : statistics) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(entry.tree_byte_count));
  }
  for (Statistics& entry : statistics) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(entry.indirect_value_byte_count));
  }
  return Status();
}

void DataFileTableWriter::Use(uint32_t file_index) {
  assert(file_index < files_.size());
  // Neighboring entries are mostly in the same file, so this keeps the list
  // short before it is sorted.
  if (!used_.empty() && used_.back().file_index == file_index) return;
  used_.push_back({file_index, 0});
}

void DataFileTableWriter::Sort() {
  const auto by_file = [](const Used& a, const Used& b) {
    return a.file_index < b.file_index;
  };
  std::sort(used_.begin(), used_.end(), by_file);
  used_.erase(std::unique(used_.begin(), used_.end(),
                          [](const Used& a, const Used& b) {
                            return a.file_index == b.file_index;
                          }),
              used_.end());

  std::vector<Used*> order;
  order.reserve(used_.size());
  for (Used& used : used_) order.push_back(&used);
  // Sorted by base and path, as TensorStore does; equal files get one entry.
  std::sort(order.begin(), order.end(), [this](Used* a, Used* b) {
    const DataFile& file_a = files_[a->file_index];
    const DataFile& file_b = files_[b->file_index];
    const int bases = file_a.base().compare(file_b.base());
    return bases != 0 ? bases < 0 : file_a.relative() < file_b.relative();
  });
  for (Used* used : order) {
    if (sorted_.empty() ||
        !(files_[sorted_.back()] == files_[used->file_index])) {
      sorted_.push_back(used->file_index);
    }
    used->written_index = static_cast<uint32_t>(sorted_.size() - 1);
  }
}

uint64_t DataFileTableWriter::BytesMax() const {
  uint64_t total = kVarint64BytesMax;
  for (const uint32_t file_index : sorted_) {
    total += 3 * kVarint16BytesMax + files_[file_index].path.size();
  }
  return total;
}

void DataFileTableWriter::Write(BodyWriter& writer) const {
  std::vector<uint64_t> prefixes(sorted_.size(), 0);
  for (size_t i = 1; i < sorted_.size(); ++i) {
    const DataFile& before = files_[sorted_[i - 1]];
    const DataFile& here = files_[sorted_[i]];
    prefixes[i] = before.base() == here.base()
                      ? CommonPrefix(before.path, here.path)
                      : CommonPrefix(before.base(), here.base());
  }
  writer.PutVarint(sorted_.size());
  for (size_t i = 1; i < sorted_.size(); ++i) writer.PutVarint(prefixes[i]);
  for (size_t i = 0; i < sorted_.size(); ++i) {
    writer.PutVarint(files_[sorted_[i]].path.size() - prefixes[i]);
  }
  for (const uint32_t file_index : sorted_) {
    writer.PutVarint(files_[file_index].base_byte_count);
  }
  for (size_t i = 0; i < sorted_.size(); ++i) {
    writer.PutBytes(
        std::string_view(files_[sorted_[i]].path).substr(prefixes[i]));
  }
}

uint32_t DataFileTableWriter::WrittenIndex(uint32_t file_index) const {
  if (used_.size() == 1) return 0;
  const auto found = std::lower_bound(
      used_.begin(), used_.end(), file_index,
      [](const Used& used, uint32_t index) { return used.file_index < index; });
  assert(found != used_.end() && found->file_index == file_index);
  return found->written_index;
}

}  // namespace holdfast::ocdbt
