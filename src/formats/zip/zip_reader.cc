#include "formats/zip/zip_reader.h"

#include <algorithm>
#include <optional>

#include "formats/zip/zip_format.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"

namespace holdfast::pickle {
namespace {

constexpr uint64_t kCrcPieceBytes = uint64_t{1} << 20;

Status BadZip(const std::string& what) { return DataLossError("zip: " + what); }

Status BadEntry(std::string_view name, const std::string& what) {
  return DataLossError("zip: entry \"" + std::string(name) + "\" " + what);
}

// The place of the directory of entries.
struct Directory {
  uint64_t offset = 0;
  uint64_t byte_count = 0;
  uint64_t entry_count = 0;
};

// Finds the end record in `tail`. The record's comment must end exactly where
// `tail` ends.
std::optional<size_t> FindEndRecord(std::string_view tail) {
  if (tail.size() < kEndBytes) return std::nullopt;
  for (size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    if (LoadLittle<uint32_t>(&tail[at]) != kEndSignature) continue;
    const auto comment = LoadLittle<uint16_t>(&tail[at + 20]);
    if (at + kEndBytes + comment == tail.size()) return at;
  }
  return std::nullopt;
}

Result<Directory> ReadEnd64(const ByteSource& source, uint64_t end_offset) {
  if (end_offset < kEnd64LocatorBytes + kEnd64Bytes) {
    return BadZip("its 64-bit end record is missing");
  }
  HF_ASSIGN_OR_RETURN(
      const std::string locator,
      source.ReadString(end_offset - kEnd64LocatorBytes, kEnd64LocatorBytes));
  if (LoadLittle<uint32_t>(locator.data()) != kEnd64LocatorSignature) {
    return BadZip("its 64-bit end record is missing");
  }
  const auto offset = LoadLittle<uint64_t>(&locator[8]);
  if (offset > end_offset - kEnd64LocatorBytes - kEnd64Bytes) {
    return BadZip("its 64-bit end record is said to be at offset " +
                  std::to_string(offset) + ", which it cannot be");
  }
  HF_ASSIGN_OR_RETURN(const std::string end,
                      source.ReadString(offset, kEnd64Bytes));
  if (LoadLittle<uint32_t>(end.data()) != kEnd64Signature) {
    return BadZip("its 64-bit end record is not at offset " +
                  std::to_string(offset));
  }
  if (LoadLittle<uint32_t>(&end[16]) != 0 ||
      LoadLittle<uint32_t>(&end[20]) != 0) {
    return UnimplementedError("zip: it is one of several disks");
  }
  return Directory{LoadLittle<uint64_t>(&end[48]),
                   LoadLittle<uint64_t>(&end[40]),
                   LoadLittle<uint64_t>(&end[32])};
}

Result<Directory> FindDirectory(const ByteSource& source) {
  constexpr uint64_t kCommentMax = 0xffff;
  // Most archives end with the record, since comments are rare.
  for (const uint64_t want : {uint64_t{kEndBytes}, kEndBytes + kCommentMax}) {
    const uint64_t tail_bytes = std::min(source.size(), want);
    HF_ASSIGN_OR_RETURN(
        const std::string tail,
        source.ReadString(source.size() - tail_bytes, tail_bytes));
    const auto at = FindEndRecord(tail);
    if (!at) continue;
    const char* end = &tail[*at];
    const uint64_t end_offset = source.size() - tail_bytes + *at;
    Directory directory{LoadLittle<uint32_t>(end + 16),
                        LoadLittle<uint32_t>(end + 12),
                        LoadLittle<uint16_t>(end + 10)};
    if (LoadLittle<uint16_t>(end + 4) != 0 ||
        LoadLittle<uint16_t>(end + 8) != directory.entry_count) {
      return UnimplementedError("zip: it is one of several disks");
    }
    if (directory.offset == kIs64 || directory.byte_count == kIs64 ||
        directory.entry_count == kIs64Count) {
      HF_ASSIGN_OR_RETURN(directory, ReadEnd64(source, end_offset));
    }
    if (directory.byte_count > end_offset ||
        directory.offset > end_offset - directory.byte_count) {
      return BadZip("its directory of " + std::to_string(directory.byte_count) +
                    " bytes at offset " + std::to_string(directory.offset) +
                    " does not fit");
    }
    if (directory.entry_count > directory.byte_count / kCentralBytes) {
      return BadZip("it says that it has " +
                    std::to_string(directory.entry_count) +
                    " entries, more than its directory can hold");
    }
    return directory;
  }
  return BadZip("it has no end record: it is not a zip archive, or cut");
}

// Replaces values that are marked as 64-bit with the extra field's values.
Status ReadExtra64(std::string_view extra, ZipEntry& entry) {
  while (extra.size() >= 4) {
    const auto id = LoadLittle<uint16_t>(extra.data());
    const auto size = LoadLittle<uint16_t>(&extra[2]);
    extra.remove_prefix(4);
    if (size > extra.size()) break;
    std::string_view field = extra.substr(0, size);
    extra.remove_prefix(size);
    if (id != kExtra64Id) continue;
    for (uint64_t* value :
         {&entry.byte_count, &entry.stored_byte_count, &entry.header_offset}) {
      if (*value != kIs64) continue;
      if (field.size() < 8) {
        return BadEntry(entry.name, "has a cut 64-bit field");
      }
      *value = LoadLittle<uint64_t>(field.data());
      field.remove_prefix(8);
    }
    return {};
  }
  return {};
}

Status CheckMethod(std::string_view name, uint16_t flags, uint16_t method,
                   bool allow_deflated) {
  if ((flags & kFlagEncrypted) != 0) {
    return UnimplementedError("zip: entry \"" + std::string(name) +
                              "\" is encrypted");
  }
  if (method != 0 && !(allow_deflated && method == kMethodDeflate)) {
    return UnimplementedError(
        "zip: entry \"" + std::string(name) + "\" is compressed (method " +
        std::to_string(method) + ")" +
        (allow_deflated ? "" : "; torch.save files never are"));
  }
  return {};
}

// Reads the entry at `position`, and advances `position`.
Result<ZipEntry> ReadCentral(std::string_view directory, size_t& position,
                             bool allow_deflated) {
  if (directory.size() - position < kCentralBytes ||
      LoadLittle<uint32_t>(&directory[position]) != kCentralSignature) {
    return BadZip("its directory is damaged at byte " +
                  std::to_string(position));
  }
  const char* record = &directory[position];
  const size_t name_bytes = LoadLittle<uint16_t>(record + 28);
  const size_t extra_bytes = LoadLittle<uint16_t>(record + 30);
  const size_t comment_bytes = LoadLittle<uint16_t>(record + 32);
  position += kCentralBytes;
  if (name_bytes + extra_bytes + comment_bytes > directory.size() - position) {
    return BadZip("its directory is cut");
  }
  ZipEntry entry;
  entry.name = directory.substr(position, name_bytes);
  entry.crc32 = LoadLittle<uint32_t>(record + 16);
  entry.byte_count = LoadLittle<uint32_t>(record + 24);
  entry.header_offset = LoadLittle<uint32_t>(record + 42);
  entry.stored_byte_count = LoadLittle<uint32_t>(record + 20);
  const auto method = LoadLittle<uint16_t>(record + 10);
  entry.is_deflated = method == kMethodDeflate;
  HF_RETURN_IF_ERROR(CheckMethod(entry.name, LoadLittle<uint16_t>(record + 8),
                                 method, allow_deflated));
  HF_RETURN_IF_ERROR(
      ReadExtra64(directory.substr(position + name_bytes, extra_bytes), entry));
  if (!entry.is_deflated && entry.stored_byte_count != entry.byte_count) {
    return BadEntry(entry.name, "is stored, and yet has two sizes, " +
                                    std::to_string(entry.stored_byte_count) +
                                    " and " + std::to_string(entry.byte_count));
  }
  position += name_bytes + extra_bytes + comment_bytes;
  return entry;
}

Status CheckNames(const std::vector<ZipEntry>& entries) {
  std::vector<std::string_view> names;
  for (const ZipEntry& entry : entries) names.push_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return BadEntry(*twice, "appears twice");
}

// Entries follow each other, so an entry may use the space up to the next
// entry.
Status CheckPlaces(std::vector<ZipEntry>& entries, uint64_t directory_offset) {
  std::ranges::stable_sort(entries, {}, &ZipEntry::header_offset);
  for (size_t i = 0; i < entries.size(); ++i) {
    ZipEntry& entry = entries[i];
    entry.end_max = i + 1 < entries.size() ? entries[i + 1].header_offset
                                           : directory_offset;
    if (entry.end_max > directory_offset ||
        entry.header_offset > entry.end_max ||
        entry.end_max - entry.header_offset < kLocalBytes ||
        entry.stored_byte_count >
            entry.end_max - entry.header_offset - kLocalBytes) {
      return BadEntry(entry.name, "of " +
                                      std::to_string(entry.stored_byte_count) +
                                      " bytes at offset " +
                                      std::to_string(entry.header_offset) +
                                      " overlaps the next part, at offset " +
                                      std::to_string(entry.end_max));
    }
  }
  return {};
}

}  // namespace

Result<ZipReader> ZipReader::Open(const ByteSource& source,
                                  bool allow_deflated) {
  HF_ASSIGN_OR_RETURN(const Directory place, FindDirectory(source));
  HF_ASSIGN_OR_RETURN(const std::string directory,
                      source.ReadString(place.offset, place.byte_count));
  ZipReader reader(source, allow_deflated);
  size_t position = 0;
  for (uint64_t i = 0; i < place.entry_count; ++i) {
    HF_ASSIGN_OR_RETURN(ZipEntry entry,
                        ReadCentral(directory, position, allow_deflated));
    reader.entries_.push_back(std::move(entry));
  }
  if (position != directory.size()) {
    return BadZip("its directory has " +
                  std::to_string(directory.size() - position) +
                  " bytes after its last entry");
  }
  HF_RETURN_IF_ERROR(CheckNames(reader.entries_));
  HF_RETURN_IF_ERROR(CheckPlaces(reader.entries_, place.offset));
  reader.has_checksums_ =
      reader.entries_.size() < 2 ||
      std::ranges::any_of(
          reader.entries_,
          [](const ZipEntry& entry) { return entry.crc32 != 0; });
  return reader;
}

const ZipEntry* ZipReader::Find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &ZipEntry::name);
  return found == entries_.end() ? nullptr : &*found;
}

Result<uint64_t> ZipReader::DataOffset(const ZipEntry& entry) const {
  HF_ASSIGN_OR_RETURN(
      const std::string header,
      source_->ReadString(
          entry.header_offset,
          std::min<uint64_t>(entry.end_max - entry.header_offset,
                             kLocalBytes + entry.name.size())));
  if (LoadLittle<uint32_t>(header.data()) != kLocalSignature) {
    return BadEntry(entry.name, "has no header at offset " +
                                    std::to_string(entry.header_offset));
  }
  const size_t name_bytes = LoadLittle<uint16_t>(&header[26]);
  const size_t extra_bytes = LoadLittle<uint16_t>(&header[28]);
  if (std::string_view(header).substr(kLocalBytes, name_bytes) != entry.name ||
      name_bytes != entry.name.size()) {
    return BadEntry(entry.name, "has another name in its own header");
  }
  const auto method = LoadLittle<uint16_t>(&header[8]);
  HF_RETURN_IF_ERROR(CheckMethod(entry.name, LoadLittle<uint16_t>(&header[6]),
                                 method, allow_deflated_));
  if ((method == kMethodDeflate) != entry.is_deflated) {
    return BadEntry(entry.name, "has another method in its own header");
  }
  const uint64_t offset =
      entry.header_offset + kLocalBytes + name_bytes + extra_bytes;
  if (offset > entry.end_max ||
      entry.stored_byte_count > entry.end_max - offset) {
    return BadEntry(entry.name,
                    "of " + std::to_string(entry.stored_byte_count) +
                        " bytes at offset " + std::to_string(offset) +
                        " reaches into the next part, at " +
                        std::to_string(entry.end_max));
  }
  return offset;
}

Status ZipReader::ReadInto(const ZipEntry& entry, char* target) const {
  HF_ASSIGN_OR_RETURN(const uint64_t offset, DataOffset(entry));
  HF_RETURN_IF_ERROR(source_->Read(offset, {target, entry.byte_count}));
  const uint32_t crc = ZipCrc32({target, entry.byte_count});
  if (crc == entry.crc32 || !has_checksums_) return {};
  return BadEntry(entry.name, "is damaged: its CRC-32 does not match");
}

Status ZipReader::Check(const ZipEntry& entry) const {
  HF_ASSIGN_OR_RETURN(const uint64_t offset, DataOffset(entry));
  std::string piece(std::min(kCrcPieceBytes, entry.byte_count), '\0');
  uint32_t crc = 0;
  for (uint64_t done = 0; done < entry.byte_count;) {
    piece.resize(std::min(kCrcPieceBytes, entry.byte_count - done));
    HF_RETURN_IF_ERROR(source_->Read(offset + done, piece));
    crc = ZipCrc32(piece, crc);
    done += piece.size();
  }
  if (crc == entry.crc32 || !has_checksums_) return {};
  return BadEntry(entry.name, "is damaged: its CRC-32 does not match");
}

Result<std::string> ZipReader::Read(const ZipEntry& entry) const {
  std::string bytes(entry.byte_count, '\0');
  HF_RETURN_IF_ERROR(ReadInto(entry, bytes.data()));
  return bytes;
}

}  // namespace holdfast::pickle
