#include "formats/zip/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "formats/zip/zip_format.h"
#include "ground/base/coding.h"

namespace holdfast::pickle {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint16_t kFlags = kFlagDescriptor | kFlagUtf8;

void PutU16Little(std::string& out, uint64_t value) {
  out += static_cast<char>(value);
  out += static_cast<char>(value >> 8);
}

bool Is64(uint64_t value) { return value >= kIs64; }

uint32_t Low32(uint64_t value) {
  return static_cast<uint32_t>(std::min(value, kIs64));
}

// Returns "FB" and padding, so that the next byte is at a multiple of 64.
std::string Padding(uint64_t offset) {
  const uint64_t start = offset + 4;
  const uint64_t padding = (kAlignment - start % kAlignment) % kAlignment;
  std::string extra = "FB";
  PutU16Little(extra, padding);
  extra.append(padding, 'Z');
  return extra;
}

}  // namespace

uint32_t ZipCrc32(std::string_view bytes, uint32_t seed) {
  return static_cast<uint32_t>(crc32_z(
      seed, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t CombineZipCrc32(uint32_t first, uint32_t second,
                         uint64_t second_byte_count) {
  return static_cast<uint32_t>(
      crc32_combine(first, second, static_cast<z_off_t>(second_byte_count)));
}

void ZipWriter::Add(std::string_view name, std::string_view bytes) {
  BeginEntry(name, bytes.size());
  Put(bytes);
  EndEntry(ZipCrc32(bytes));
}

void ZipWriter::BeginEntry(std::string_view name, uint64_t byte_count) {
  entries_.push_back({std::string(name), byte_count, offset_, 0});
  std::string extra64;
  if (Is64(byte_count)) {
    PutU16Little(extra64, kExtra64Id);
    PutU16Little(extra64, 16);
    PutU64Little(extra64, byte_count);
    PutU64Little(extra64, byte_count);
  }
  const std::string padding =
      Padding(offset_ + kLocalBytes + name.size() + extra64.size());
  std::string header;
  PutU32Little(header, kLocalSignature);
  PutU16Little(header, extra64.empty() ? 0 : 45);
  PutU16Little(header, kFlags);
  header.append(6, '\0');  // method, time, date
  PutU32Little(header, 0);
  PutU32Little(header, extra64.empty() ? 0 : Low32(kIs64));
  PutU32Little(header, extra64.empty() ? 0 : Low32(kIs64));
  PutU16Little(header, name.size());
  PutU16Little(header, extra64.size() + padding.size());
  header += name;
  Put(header + extra64 + padding);
}

void ZipWriter::Put(std::string_view bytes) {
  out_ += bytes;
  offset_ += bytes.size();
}

void ZipWriter::EndEntry(uint32_t crc32) {
  Entry& entry = entries_.back();
  entry.crc32 = crc32;
  std::string descriptor;
  PutU32Little(descriptor, kDescriptorSignature);
  PutU32Little(descriptor, crc32);
  for (int i = 0; i < 2; ++i) {
    if (Is64(entry.byte_count)) {
      PutU64Little(descriptor, entry.byte_count);
    } else {
      PutU32Little(descriptor, static_cast<uint32_t>(entry.byte_count));
    }
  }
  Put(descriptor);
}

void ZipWriter::Finish(std::string_view root) {
  uint32_t names = 0;
  uint32_t contents = 0;
  for (const Entry& entry : entries_) {
    names = ZipCrc32(entry.name, names);
    contents = CombineZipCrc32(contents, entry.crc32, entry.byte_count);
  }
  std::array<char, 48> id;
  std::snprintf(id.data(), id.size(), "%020u%020u", names, contents);
  Add(std::string(root) + "/.data/serialization_id", id.data());
  PutDirectory();
}

void ZipWriter::PutDirectory() {
  const uint64_t directory_offset = offset_;
  for (const Entry& entry : entries_) {
    std::string extra;
    if (Is64(entry.byte_count)) {
      PutU64Little(extra, entry.byte_count);
      PutU64Little(extra, entry.byte_count);
    }
    if (Is64(entry.header_offset)) PutU64Little(extra, entry.header_offset);
    std::string record;
    PutU32Little(record, kCentralSignature);
    PutU16Little(record, 0);
    PutU16Little(record, extra.empty() ? 0 : 45);
    PutU16Little(record, kFlags);
    record.append(6, '\0');
    PutU32Little(record, entry.crc32);
    PutU32Little(record, Low32(entry.byte_count));
    PutU32Little(record, Low32(entry.byte_count));
    PutU16Little(record, entry.name.size());
    PutU16Little(record, extra.empty() ? 0 : extra.size() + 4);
    record.append(10, '\0');  // comment, disk, attributes
    PutU32Little(record, Low32(entry.header_offset));
    record += entry.name;
    if (!extra.empty()) {
      PutU16Little(record, kExtra64Id);
      PutU16Little(record, extra.size());
      record += extra;
    }
    Put(record);
  }
  const uint64_t directory_bytes = offset_ - directory_offset;
  const uint64_t end64_offset = offset_;
  std::string end;
  PutU32Little(end, kEnd64Signature);
  PutU64Little(end, kEnd64Bytes - 12);
  PutU16Little(end, 0x031e);
  PutU16Little(end, 45);
  PutU64Little(end, 0);  // disks
  PutU64Little(end, entries_.size());
  PutU64Little(end, entries_.size());
  PutU64Little(end, directory_bytes);
  PutU64Little(end, directory_offset);
  PutU32Little(end, kEnd64LocatorSignature);
  PutU32Little(end, 0);
  PutU64Little(end, end64_offset);
  PutU32Little(end, 1);
  PutU32Little(end, kEndSignature);
  PutU32Little(end, 0);
  const uint64_t count = std::min<uint64_t>(entries_.size(), kIs64Count);
  PutU16Little(end, count);
  PutU16Little(end, count);
  PutU32Little(end, Low32(directory_bytes));
  PutU32Little(end, Low32(directory_offset));
  PutU16Little(end, 0);
  Put(end);
}

}  // namespace holdfast::pickle
