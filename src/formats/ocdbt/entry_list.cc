#include "formats/ocdbt/entry_list.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

constexpr size_t kArenaChunkBytes = size_t{1} << 20;

bool KeyLess(const LeafEntry& a, const LeafEntry& b) { return a.key < b.key; }

// Returns the first eight bytes as an integer that sorts like the bytes.
// Missing bytes count as zero, so keys with equal heads must be compared
// themselves.
uint64_t KeyHead(std::string_view key) {
  char bytes[sizeof(uint64_t)] = {};
  if (!key.empty()) {
    std::memcpy(bytes, key.data(), std::min(key.size(), sizeof bytes));
  }
  return __builtin_bswap64(LoadLittle<uint64_t>(bytes));
}

size_t SharedPrefixBytes(const std::vector<LeafEntry>& entries) {
  const std::string_view first = entries.front().key;
  size_t shared = first.size();
  for (const LeafEntry& entry : entries) {
    shared = CommonPrefixBytes(first.substr(0, shared), entry.key);
  }
  return shared;
}

// Assigns numbers to data files in the order of their appearance.
class FileNumbers {
 public:
  FileNumbers(size_t directory_byte_count, DataFileTable& files)
      : directory_byte_count_(directory_byte_count), files_(files) {}

  uint32_t Get(const ValueRef& value) {
    const bool same = !files_.empty() && value.file == last_path_ &&
                      value.file_base_byte_count == last_base_byte_count_;
    if (same) return last_index_;
    last_path_ = value.file;
    last_base_byte_count_ = value.file_base_byte_count;
    const auto [found, inserted] = indexes_.try_emplace(
        last_path_ + '\0' + std::to_string(last_base_byte_count_),
        static_cast<uint32_t>(files_.size()));
    if (inserted) {
      files_.push_back({last_path_.substr(directory_byte_count_),
                        last_base_byte_count_ - directory_byte_count_});
    }
    return last_index_ = found->second;
  }

 private:
  const size_t directory_byte_count_;
  DataFileTable& files_;
  std::unordered_map<std::string, uint32_t> indexes_;
  std::string last_path_;
  size_t last_base_byte_count_ = 0;
  uint32_t last_index_ = 0;
};

}  // namespace

char* TextArena::Allocate(size_t byte_count) {
  // A long string would waste the rest of a chunk.
  if (byte_count > kArenaChunkBytes / 4) {
    chunks_.emplace_back(byte_count);
    return chunks_.back().data();
  }
  if (byte_count > room_) {
    chunks_.emplace_back(kArenaChunkBytes);
    next_ = chunks_.back().data();
    room_ = kArenaChunkBytes;
  }
  char* const result = next_;
  next_ += byte_count;
  room_ -= byte_count;
  return result;
}

std::string_view TextArena::Copy(std::string_view text) {
  if (text.empty()) return {};
  char* const target = Allocate(text.size());
  std::memcpy(target, text.data(), text.size());
  return {target, text.size()};
}

Result<EntryList> ReadAllEntries(Database& database,
                                 const CancelToken* cancel) {
  EntryList list;
  const auto keys = std::make_shared<TextArena>();
  list.owners.push_back(keys);
  FileNumbers numbers(database.directory().size(), list.files);
  HF_RETURN_IF_ERROR(database.ForEach(
      "", "", "",
      [&](std::string_view key, const ValueRef& value) {
        LeafEntry entry;
        entry.key = keys->Copy(key);
        if (value.is_inline) {
          entry.SetInline(value.inline_value);
          // The value is in the memory of its node, which the list keeps alive.
          if (list.owners.back() != value.owner) {
            list.owners.push_back(value.owner);
          }
        } else {
          entry.SetIndirect(
              {numbers.Get(value), value.offset, value.byte_count});
        }
        list.entries.push_back(entry);
        return Status();
      },
      cancel));
  return list;
}

void SortByKey(std::vector<LeafEntry>& entries) {
  if (std::is_sorted(entries.begin(), entries.end(), KeyLess)) return;
  // Integers are sorted instead of strings, since keys mostly differ within the
  // eight bytes after their common prefix.
  struct Item {
    uint64_t head;
    size_t index;
  };
  const size_t shared = SharedPrefixBytes(entries);
  std::vector<Item> items(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    items[i] = {KeyHead(entries[i].key.substr(shared)), i};
  }
  std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    if (a.head != b.head) return a.head < b.head;
    return KeyLess(entries[a.index], entries[b.index]);
  });
  std::vector<LeafEntry> sorted;
  sorted.reserve(entries.size());
  for (const Item& item : items) sorted.push_back(entries[item.index]);
  entries = std::move(sorted);
}

}  // namespace holdfast::ocdbt
