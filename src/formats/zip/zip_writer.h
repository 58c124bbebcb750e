// A zip archive of stored entries, laid out as torch.save does: the bytes of
// every entry begin at a multiple of 64, and are followed by sizes and CRC.
//
// An entry's place is therefore known before its bytes are. Other code may
// write the bytes later and elsewhere (Skip); only their CRC is needed here.
// Thread-safety: one thread. Units: bytes.
// Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::pickle {

class ZipWriter {
 public:
  // Adds a complete entry.
  void Add(std::string_view name, std::string_view bytes);
  // Writes the header of an entry; `byte_count` bytes and EndEntry must follow.
  void BeginEntry(std::string_view name, uint64_t byte_count);
  void Put(std::string_view bytes);
  // Leaves room for bytes that the caller writes.
  void Skip(uint64_t byte_count) { offset_ += byte_count; }
  void EndEntry(uint32_t crc32);
  // Adds the entry .data/serialization_id below `root`, a number that
  // identifies the content, and then the directory.
  void Finish(std::string_view root);
  // Adds only the directory, as other programs expect it.
  void FinishPlain() { PutDirectory(); }

  // The place of the next byte in the archive.
  uint64_t offset() const { return offset_; }
  // Returns the bytes written since the last call.
  std::string TakeBytes() { return std::exchange(out_, {}); }

 private:
  struct Entry {
    std::string name;
    uint64_t byte_count;
    uint64_t header_offset;
    uint32_t crc32;
  };

  void PutDirectory();

  std::string out_;
  uint64_t offset_ = 0;
  std::vector<Entry> entries_;
};

// Returns the CRC-32 of zip archives.
uint32_t ZipCrc32(std::string_view bytes, uint32_t seed = 0);
// Returns the CRC of two concatenated strings, given the CRC of each.
uint32_t CombineZipCrc32(uint32_t first, uint32_t second,
                         uint64_t second_byte_count);

}  // namespace holdfast::pickle
