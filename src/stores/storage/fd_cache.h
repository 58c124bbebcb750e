// FdCache: a bounded set of open files by key that evicts the least recently
// used, so that thousands of ranged reads of one data file open it once.
//
// All caches of the process together hold at most a quarter of the descriptors
// that it may have open (RLIMIT_NOFILE), however many stores exist.
//
// It does not check whether an entry still is the file of that name; the file
// store asks the descriptor.
// Thread-safety: any thread. Ownership: entries are shared; an evicted file
// stays open until its last reader releases it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "stores/storage/unique_fd.h"

namespace holdfast {

struct OpenFile {
  UniqueFd fd;
  // Inode change time when the file was opened; a rename or unlink changes it.
  int64_t changed_seconds = 0;
  int64_t changed_nanoseconds = 0;
};

class FdCache {
 public:
  // 0 keeps nothing open.
  explicit FdCache(size_t file_count_max) : file_count_max_(file_count_max) {}
  ~FdCache() { Clear(); }
  FdCache(const FdCache&) = delete;
  FdCache& operator=(const FdCache&) = delete;

  // Null when absent.
  std::shared_ptr<const OpenFile> Find(std::string_view key);
  // Replaces an entry with the same key. The file is not kept when other caches
  // already hold the maximum number of descriptors.
  void Insert(std::string_view key, std::shared_ptr<const OpenFile> file);
  void Erase(std::string_view key);
  void Clear();
  size_t file_count() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const OpenFile> file;
  };

  void EraseLocked(std::string_view key);

  const size_t file_count_max_;
  mutable std::mutex mutex_;
  std::list<Entry> newest_first_;
  // Keys point into the entries.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

}  // namespace holdfast
